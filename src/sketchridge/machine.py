"""What this machine does in a second, measured once and kept in a file.

The planner's predictions rest on it. The file makes them the same in every later run: the same
input, seed and file give the same plan.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np
import scipy  # its parts load when they are first used

from sketchridge.files import atomic_write
from sketchridge.threads import thread_count

VERSION = 1
# Sizes that take a few milliseconds each, and are larger than the caches where that matters.
VECTOR_SIDE = 4000
BLOCK_SIDE = 1000
SPARSE_ROWS, SPARSE_ENTRIES = 20_000, 60
REPEATS = 3
# Where Linux tells whose the processor is, and a core's second-level cache, in kilobytes.
PROCESSOR = Path("/proc/cpuinfo")
SECOND_CACHE = Path("/sys/devices/system/cpu/cpu0/cache/index2/size")


@dataclass(frozen=True)
class Machine:
    """Speeds of the parts that solvers are made of, on all the threads that we may use."""

    bandwidth: float  # bytes of a dense matrix a second, in its product with a vector
    flops: float  # multiplications and additions a second, in products of float64 matrices
    flops32: float  # and of float32 matrices
    factor_flops: float  # and in a Cholesky factorisation
    sparse_rate: float  # stored values a second, in a product of a sparse matrix with a vector


@cache
def this_machine() -> Machine:
    """The speeds from the file, or measured now (less than a second) and put there."""
    path = cache_file()
    saved = _read(path)
    if saved is not None:
        return saved
    measured = measure()
    _write(path, measured)
    return measured


def cache_file() -> Path:
    """Where the speeds are kept, one file for a number of threads; SKETCHRIDGE_CACHE moves it."""
    home = os.environ.get("SKETCHRIDGE_CACHE")
    if home is None:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        home = str(Path(base) / "sketchridge")
    return Path(home) / f"machine-{VERSION}-{thread_count()}-threads.json"


def _read(path: Path) -> Machine | None:
    """The file's speeds; None where there is none that makes sense."""
    try:
        values = json.loads(path.read_text())
        machine = Machine(**{field.name: float(values[field.name]) for field in fields(Machine)})
    except (OSError, ValueError, KeyError, TypeError):
        return None
    sound = all(np.isfinite(speed) and speed > 0 for speed in asdict(machine).values())
    return machine if sound else None


def _write(path: Path, machine: Machine) -> None:
    """Keep the speeds; where nothing can be written, the next process measures again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            file.write(json.dumps(asdict(machine), indent=1).encode())
    except OSError:
        return


@cache
def is_intels() -> bool:
    """Whether the processor is one of Intel's; false where it is not known."""
    try:
        return "GenuineIntel" in PROCESSOR.read_text()
    except OSError:
        return False


@cache
def second_cache_bytes() -> int:
    """The size of a core's second-level cache; 0 where it is not known."""
    try:
        return int(SECOND_CACHE.read_text().strip().removesuffix("K")) << 10
    except (OSError, ValueError):
        return 0


def measure() -> Machine:
    """Time small pieces of the work."""
    rng = np.random.default_rng(0)
    tall, vector = np.ones((VECTOR_SIDE, VECTOR_SIDE)), np.ones(VECTOR_SIDE)
    block = rng.standard_normal((BLOCK_SIDE, BLOCK_SIDE))
    narrow = block.astype(np.float32)
    normal = block @ block.T + BLOCK_SIDE * np.eye(BLOCK_SIDE)
    stored = SPARSE_ROWS * SPARSE_ENTRIES
    columns = rng.integers(SPARSE_ROWS, size=stored).astype(np.int32)
    pointers = np.arange(0, stored + 1, SPARSE_ENTRIES, dtype=np.int32)
    shape = (SPARSE_ROWS, SPARSE_ROWS)
    sparse = scipy.sparse.csr_matrix((np.ones(stored), columns, pointers), shape=shape)
    long = np.ones(SPARSE_ROWS)
    cube = float(BLOCK_SIDE) ** 3
    return Machine(
        bandwidth=tall.nbytes / _seconds(lambda: tall @ vector),
        flops=2 * cube / _seconds(lambda: block @ block),
        flops32=2 * cube / _seconds(lambda: narrow @ narrow),
        factor_flops=cube / 3 / _seconds(lambda: scipy.linalg.cholesky(normal)),
        # scipy's product runs on one thread, ours on all.
        sparse_rate=thread_count() * stored / _seconds(lambda: sparse @ long),
    )


def _seconds(work: Callable[[], object]) -> float:
    """The shortest of a few runs, after one that does not count."""
    work()
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return max(min(times), 1e-9)
