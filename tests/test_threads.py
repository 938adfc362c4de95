"""The pool: tasks run at once, in order, and its threads keep off the caller's core."""

import os
import threading
import time
from functools import partial

import pytest

from sketchridge import threads

placing = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="threads can be placed on Linux, where there is more than one core",
)


@pytest.fixture
def pool(monkeypatch):
    """A pool of its own, with one thread that has begun."""
    fresh = threads._Pool()
    fresh.threads._max_workers = 1  # one that is busy for a moment longer brings no second
    monkeypatch.setattr(threads, "_pool", lambda process: fresh)
    threads.run_all([int, int])
    yield fresh
    fresh.threads.shutdown()


def test_results_come_in_the_order_of_the_tasks():
    assert threads.run_all([lambda i=i: i for i in range(5)]) == [0, 1, 2, 3, 4]
    assert threads.run_shared([lambda i=i: i for i in range(50)]) == list(range(50))


def test_a_task_that_runs_apart_keeps_to_its_thread():
    def task():
        ids = threads.run_all([threading.get_ident for _ in range(threads.thread_count())])
        with threads.single_threaded_blas(), threads.blas_threads(1e12):
            return threads.thread_count(), ids == [threading.get_ident()], threads._single.users

    before = threads.thread_count()
    with threads.single_threaded_blas():
        users = threads._single.users
        assert threads.run_apart([task] * 6) == [(1, True, users)] * 6
        nested = threads.run_apart([lambda: threads.run_apart([task] * 2)] * 2)
        assert nested == [[(1, True, users)] * 2] * 2
        assert threads.thread_count() == before  # and what comes after is as it was

    def fails():
        raise RuntimeError("as it must")

    with pytest.raises(RuntimeError):
        threads.run_apart([fails])
    assert threads.thread_count() == before


@pytest.mark.parametrize("failing", [0, 1, 7])
def test_where_a_task_fails_no_other_begins_or_goes_on_afterwards(failing):
    begun, ended = [], []

    def task(number):
        begun.append(number)
        time.sleep(0.01)
        if number == failing:
            raise RuntimeError(f"task {number}")
        ended.append(number)

    tasks = [partial(task, number) for number in range(40)]
    with pytest.raises(RuntimeError, match=f"task {failing}"):
        threads.run_shared(tasks)
    at_once = threads.thread_count()
    assert len(begun) <= failing + 2 * at_once and len(ended) == len(begun) - 1
    before = list(begun)
    time.sleep(0.05)
    assert begun == before


@placing
def test_the_pools_threads_keep_off_the_core_of_the_caller(pool, monkeypatch):
    cores = os.sched_getaffinity(0)
    for core in sorted(cores):
        monkeypatch.setattr(threads, "_core_of_this_thread", lambda core=core: lambda: core)
        threads.run_all([int, int])
        for member in pool.members:
            assert os.sched_getaffinity(member) == cores - {core}
    assert os.sched_getaffinity(0) == cores  # the caller's own stays as it is


@placing
def test_threads_that_are_placed_are_left_alone_until_the_caller_moves(pool, monkeypatch):
    core = min(os.sched_getaffinity(0))
    monkeypatch.setattr(threads, "_core_of_this_thread", lambda: lambda: core)
    threads.run_all([int, int])
    moves = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda *arguments: moves.append(arguments))
    threads.run_all([int, int])
    assert moves == []


@placing
def test_a_process_on_one_core_is_left_there(pool, monkeypatch):
    moves = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda *arguments: moves.append(arguments))
    monkeypatch.setattr(os, "sched_getaffinity", lambda thread: {3})
    monkeypatch.setattr(threads, "_core_of_this_thread", lambda: lambda: 3)
    assert threads.run_all([int, int]) == [0, 0]
    assert moves == []


@placing
def test_threads_follow_when_the_process_may_use_other_cores(pool, monkeypatch):
    moves = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda member, cores: moves.append(cores))
    monkeypatch.setattr(threads, "_core_of_this_thread", lambda: lambda: 0)
    for cores in ({0, 1}, {0, 1, 2, 3}, {0, 1, 2, 3}):
        monkeypatch.setattr(os, "sched_getaffinity", lambda thread, cores=cores: cores)
        threads.run_all([int, int])
    assert moves == [{1}, {1, 2, 3}]


@placing
def test_several_solves_at_once_do_not_move_each_others_threads(pool, monkeypatch):
    moves = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda *arguments: moves.append(arguments))
    monkeypatch.setattr(threads._single, "users", 2)
    pool.placed = None
    threads.run_all([int, int])
    assert moves == []


@pytest.mark.parametrize("missing", [True, False])
def test_where_threads_cannot_be_placed_they_run_all_the_same(pool, monkeypatch, missing):
    def forbidden(*arguments):
        raise PermissionError("not here")

    if missing:
        monkeypatch.setattr(threads, "_core_of_this_thread", lambda: None)
    monkeypatch.setattr(os, "sched_setaffinity", forbidden, raising=False)
    pool.placed = None
    assert threads.run_all([int, int]) == [0, 0]
