"""Fit a read-only memory map of 2 GB, and measure what that holds beyond the page cache.

    python benchmarks/memory_map.py [--folder FOLDER] [--gigabytes 2] [--solver auto]

The file is written to the folder and removed again. Anonymous memory (RssAnon) is what the
process holds of its own; the mapped file is the page cache's.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

COLUMNS = 1000

FIT = """
import sys, threading, time
import numpy as np
from sketchridge import Ridge

def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 2**20

X, y = np.load(sys.argv[1], mmap_mode="r"), np.load(sys.argv[2])
before, peak, done = anonymous(), [0.0], threading.Event()

def watch():
    while not done.wait(0.01):
        peak[0] = max(peak[0], anonymous())

thread = threading.Thread(target=watch)
thread.start()
model = Ridge(solver=sys.argv[3], random_state=0).fit(X, y)
done.set()
thread.join()
print(f"{peak[0] - before:.3f} GB beyond the page cache at the peak")
print(f"relative gap {model.relative_gap_:.2g}, coef_ {model.coef_.dtype}")
print(model.plan_)
"""


def write(folder: Path, gigabytes: float) -> None:
    rows = int(gigabytes * 1e9 / (4 * COLUMNS))
    rng = np.random.default_rng(0)
    coef = rng.standard_normal(COLUMNS, dtype=np.float32)
    y = np.empty(rows, np.float32)
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (rows, COLUMNS))
    for start in range(0, rows, 10_000):
        block = X[start : start + 10_000]
        block[:] = rng.standard_normal(block.shape, dtype=np.float32)
        noise = rng.standard_normal(len(block), dtype=np.float32)
        y[start : start + len(block)] = block @ coef + noise
    X.flush()
    np.save(folder / "y.npy", y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--solver", default="auto")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        write(Path(folder), options.gigabytes)
        print(f"a memory map of {options.gigabytes:g} GB, {COLUMNS} columns of float32")
        files = [str(Path(folder) / name) for name in ("X.npy", "y.npy")]
        subprocess.run([sys.executable, "-c", FIT, *files, options.solver], check=True)


if __name__ == "__main__":
    main()
