"""Threads: how many there are, and who may use them.

Products with the data run on a pool of our own: compiled kernels, or a BLAS of one thread in each
of ours. BLAS's own threads are for large factorisations and the algebra of sketches, and numba's
are not used at all: two pools that spin on the same cores make each other several times slower.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Any

from threadpoolctl import ThreadpoolController

# Of so many runs, one is the way that was slower: alone seldom, for threads that are held up show
# that by themselves.
TOGETHER_AGAIN, ALONE_AGAIN = 16, 64
# Until each way has been run twice; the very first times threads start, and code is loaded.
TRIALS = 4
# Multiplications: below this, one thread is as quick.
WORTH_ALL_THREADS = 2.5e9


@cache
def _controller() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  its BLAS is another library than numpy's: load both first

    return ThreadpoolController()


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries alone; looking for them takes longer than a small solve."""
    return _controller().select(user_api="blas")


@cache
def _core_of_this_thread() -> Callable[[], int] | None:
    """What tells the core that the calling thread is on; None where threads cannot be placed."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    try:
        # Called under Python's lock: to give it up for so short a call could take milliseconds.
        reader: Callable[[], int] = ctypes.PyDLL(None).sched_getcpu
    except (OSError, AttributeError):
        return None
    return reader


class _Pool:
    """Threads of our own, kept off the core of the one that gives them work.

    Left to itself the system may wake a thread on the core of the one that woke it, and take ten
    milliseconds to see that both have work to do: longer than many a solve's passes.
    """

    def __init__(self) -> None:
        self.members: list[int] = []
        self.placing = threading.Lock()
        self.placed: tuple[set[int], int] | None = None  # on which cores, and how many of them
        self.threads = ThreadPoolExecutor(
            os.cpu_count() or 1,
            "sketchridge",
            lambda: self.members.append(threading.get_native_id()),
        )

    def submit(self, tasks: Sequence[Callable[[], Any]]) -> list[Future[Any]]:
        """Give the tasks to the threads; several solves at once leave them where they are."""
        core = _core_of_this_thread()
        if core is not None and tasks and _single.users <= 1:
            self._keep_off(core())
        return [self.threads.submit(task) for task in tasks]

    def _keep_off(self, core: int) -> None:
        others = os.sched_getaffinity(0) - {core}
        with self.placing:
            wanted = others, len(self.members)
            if not others or self.placed == wanted:
                return
            self.placed = wanted
            for member in self.members:
                with suppress(OSError):  # a sandbox may forbid it: then it is where it is
                    os.sched_setaffinity(member, others)


@cache
def _pool(process: int) -> _Pool:
    """One pool a process: the threads of a parent do not survive a fork."""
    return _Pool()


def run_all(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run the tasks at once, the first on this thread, and give their results in order."""
    others = _pool(os.getpid()).submit(tasks[1:])
    return [task() for task in tasks[:1]] + [other.result() for other in others]


def run_shared(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run many tasks on all threads, each taking the next as it comes; the results in order.

    A thread whose core does other work meanwhile does less of them, and nobody waits for it. Once
    one has failed no other begins, and the exception comes when those under way are done.
    """
    results: list[Any] = [None] * len(tasks)
    waiting = deque(range(len(tasks)))

    def work() -> None:
        while True:
            try:
                index = waiting.popleft()
            except IndexError:
                return
            try:
                results[index] = tasks[index]()
            except BaseException:
                waiting.clear()  # the others would be in vain
                raise

    others = _pool(os.getpid()).submit([work] * (min(thread_count(), len(tasks)) - 1))
    try:
        work()
    finally:
        wait(others)  # nothing goes on behind the caller's back
    for other in others:
        other.result()
    return results


def run_apart(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """`run_shared` for tasks that would share their own work: each keeps to its thread."""

    def alone(task: Callable[[], Any]) -> Any:
        before, _apart.is_so = getattr(_apart, "is_so", False), True
        try:
            return task()
        finally:
            _apart.is_so = before

    with single_threaded_blas():
        return run_shared([partial(alone, task) for task in tasks])


@cache
def _meeting(process: int) -> threading.Lock:
    """Held while tasks that wait for each other run; one a process, as the pool is."""
    return threading.Lock()


def run_together(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """`run_all` for tasks that wait for each other: they need a thread each at the same time.

    Two such groups that share the pool could each wait for a thread that the other holds, so one
    group runs after the other.
    """
    if len(tasks) == 1:
        return run_all(tasks)
    with _meeting(os.getpid()):
        return run_all(tasks)


class Team:
    """Runs work that several threads can do together, or one alone, with the same result.

    Threads that wait for each other are slow where other programs take their cores. Both ways are
    tried, the faster one is kept, and the other gets another chance now and then. The clock may
    decide, since the result does not depend on it.
    """

    def __init__(self) -> None:
        self.runs = 0
        # Of the last two runs together and alone: the better one counts, for a single run may be
        # held up by what went before, BLAS threads that still spin, say.
        self.seconds = {way: deque([0.0], maxlen=2) for way in (True, False)}

    def run(
        self, together: Sequence[Callable[[], Any]], alone: Sequence[Callable[[], Any]]
    ) -> list[Any]:
        """Do it one way or the other."""
        if len(together) == 1:
            return run_all(alone)
        as_team = self._as_team()
        began = time.perf_counter()
        result = run_together(together) if as_team else run_all(alone)
        self.seconds[as_team].append(time.perf_counter() - began)
        self.runs += 1
        return result

    def _as_team(self) -> bool:
        faster = min(self.seconds[True]) <= min(self.seconds[False])
        if self.runs < TRIALS:
            return self.runs % 2 == 0
        chance = ALONE_AGAIN if faster else TOGETHER_AGAIN
        return faster != (self.runs % chance == 0)


class _SingleThreadedBlas:
    """BLAS's limit is the process's: of several solves at once the last one out restores it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0  # threads inside, however deep
        self.inside = threading.local()
        self.threads_before = 1
        self.limit: Any = None

    def enter(self) -> None:
        depth = getattr(self.inside, "depth", 0)
        self.inside.depth = depth + 1
        if depth:
            return
        with self.lock:
            if self.users == 0:
                self.threads_before = _blas_threads()
                self.limit = _blas().limit(limits=1)
            self.users += 1

    def leave(self) -> None:
        self.inside.depth -= 1
        if self.inside.depth:
            return
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self.limit.restore_original_limits()

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Give the threads back for a while, unless several solves share them."""
        with self.lock:
            alone = self.users == 1
            if alone:
                self.limit.restore_original_limits()
        try:
            yield
        finally:
            with self.lock:
                if alone and self.users:
                    self.limit = _blas().limit(limits=1)


_single = _SingleThreadedBlas()
_apart = threading.local()


def _is_apart() -> bool:
    """Whether this thread runs a task that keeps to it."""
    return getattr(_apart, "is_so", False)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """BLAS keeps to one thread inside, so that it does not spin beside our pool."""
    if _is_apart():  # it does already
        yield
        return
    _single.enter()
    try:
        yield
    finally:
        _single.leave()


@contextmanager
def blas_threads(operations: float) -> Iterator[None]:
    """All threads for a piece of BLAS's or LAPACK's own work, if it is large, also in a solve.

    A small piece is done sooner by one thread: the others would spin for a tenth of a second
    afterwards, where ours or another BLAS library's want to work.
    """
    if operations > WORTH_ALL_THREADS and not _is_apart():
        with _single.lifted():
            yield
    else:
        with single_threaded_blas():
            yield


def thread_count() -> int:
    """The threads that BLAS may use, or might before `single_threaded_blas`.

    A limit that was set outside (by joblib, say) binds us too. Several solves at once share them.
    There is one for a task that runs apart.
    """
    if _is_apart():
        return 1
    users = _single.users
    return max(1, _single.threads_before // users) if users else _blas_threads()


def _blas_threads() -> int:
    """Of the library that may use the most: limits bind all, and some are built for one thread."""
    counts = [int(library.num_threads) for library in _blas().lib_controllers]
    return max(1, min(max(counts, default=1), _cores()))


def _cores() -> int:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
