"""The engine's parts against the physical work that they consist of, in the same run.

    make bench-kernels                         all that the data at hand allows
    python benchmarks/kernels.py --repeats 15  steadier medians

Every figure is a ratio: the time of a part over the time of the BLAS or scipy products that read
the same data, the two measured in turn, repeated, with the median and the quartiles. The sparse
rows use rcv1_subsets.npz from the folder named by SKETCHRIDGE_DATA, and a random matrix of the
same shape and number of non-zeros where that is absent.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from scipy import sparse

from sketchridge.preconditioner import Lanczos
from sketchridge.problem import RidgeProblem
from sketchridge.sketch import block_lanczos
from sketchridge.solvers.svrg import SVRG
from sketchridge.threads import single_threaded_blas

RANK, BLOCKS = 30, 4
IN_A_ROW = 5  # epochs follow one another in a solve, and find the threads as the last one left them


SETTLE = 0.1  # seconds: BLAS's threads go on spinning for some while after a product


def seconds(action):
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def settled_seconds(action):
    time.sleep(SETTLE)
    return seconds(action)


def compare(name, part, yardstick, limit, repeats):
    """Time part and yardstick in turn; print the ratio's median and quartiles."""
    part(), yardstick()
    pairs = np.array([[settled_seconds(run) for run in (part, yardstick)] for _ in range(repeats)])
    ratios = pairs[:, 0] / pairs[:, 1]
    low, median, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    ours, theirs = 1e3 * np.median(pairs, axis=0)
    verdict = "reported"
    if limit is not None:
        verdict = f"must be ≤ {limit:.1f}  {'ok' if median <= limit else 'MISSED'}"
    print(
        f"{name:<58} {median:5.2f} × [{low:.2f}, {high:.2f}]  {verdict:<22}"
        f"  ({ours:.1f} ms against {theirs:.1f} ms)"
    )


def dense_data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20000, 5000))
    X *= np.arange(1, 5001) ** -1.0
    return X, rng.standard_normal(20000)


def sparse_data():
    path = Path(os.environ.get("SKETCHRIDGE_DATA", ".")) / "rcv1_subsets.npz"
    if path.exists():
        file = np.load(path)
        pointers = (file[name].astype(np.int32) for name in ("indices", "indptr"))
        arrays = (file["data"].astype(np.float64), *pointers)
        return (
            "RCV1-v2 subsets",
            sparse.csr_array(arrays, shape=tuple(file["shape"].tolist())),
            file["y"],
        )
    rng = np.random.default_rng(0)
    X = sparse.random_array((20242, 47236), density=0.00159, rng=rng, format="csr")
    return "random sparse (RCV1's shape)", X, rng.standard_normal(20242)


def one_epoch(problem, rng):
    """A function that runs n steps and the next snapshot's gradient, as the solver does."""
    preconditioner = Lanczos(rank=RANK, blocks=1).build(problem, rng)
    start = np.zeros((problem.d, 1))
    snapshots = SVRG().iterates(problem, preconditioner, start, rng)
    next(snapshots)
    return lambda: next(snapshots)


def bench_dense(repeats):
    X, y = dense_data()
    rng = np.random.default_rng(1)
    problem = RidgeProblem(X, y[:, None], 1e-3)
    v = rng.standard_normal(5000)
    epoch = one_epoch(problem, rng)

    def epochs():
        with single_threaded_blas():  # as in a solve
            for _ in range(IN_A_ROW):
                epoch()

    compare(
        "SVRG epoch and its gradient, 20000×5000, over 3 X@v",
        epochs,
        lambda: [X @ v for _ in range(3 * IN_A_ROW)],
        1.0,
        repeats,
    )
    bench_sketch("20000×5000", problem, repeats)


def bench_sparse(repeats):
    name, X, y = sparse_data()
    rng = np.random.default_rng(1)
    problem = RidgeProblem(X, y.astype(np.float64)[:, None], 1e-3)
    w, r = rng.standard_normal(X.shape[1]), rng.standard_normal(X.shape[0])
    transposed = X.T
    with single_threaded_blas():
        epoch = one_epoch(problem, rng)
        compare(
            f"SVRG epoch and its gradient, {name}, over X@w + Xᵀ@r",
            lambda: [epoch() for _ in range(IN_A_ROW)],
            lambda: [(X @ w, transposed @ r) for _ in range(IN_A_ROW)],
            5.0,
            repeats,
        )
        bench_sketch(name, problem, repeats)


def bench_sketch(name, problem, repeats):
    def sketch():
        block_lanczos(problem, RANK, BLOCKS, np.random.default_rng(2))

    fewer = max(3, repeats // 3)
    label = f"block Lanczos k=30 q=4, {name}, over its products"
    compare(label, sketch, lambda: products_of_lanczos(problem.X), 1.3, fewer)
    label = "the same over the products with X alone"
    compare(label, sketch, lambda: products_with_data(problem.X), None, fewer)


def products_with_data(X):
    """Xᵀ Π, then q times Xᵀ (X V)."""
    rng = np.random.default_rng(3)
    V = X.T @ rng.standard_normal((X.shape[0], RANK))
    for _ in range(BLOCKS):
        V = X.T @ (X @ V)
        V /= np.abs(V).max()


def products_of_lanczos(X):
    """Those, and the products of the full re-orthogonalisation: twice Q (QᵀV), twice V (VᵀV)."""
    products_with_data(X)
    frame, V = np.ones((X.shape[1], (BLOCKS + 1) * RANK)), np.ones((X.shape[1], RANK))
    for block in range(BLOCKS + 1):
        Q = frame[:, : block * RANK]
        for _ in range(2):
            V -= 1e-9 * (Q @ (Q.T @ V))
            V = V @ (V.T @ V / X.shape[1] / RANK)


MEMORY = """
import resource, sys
import numpy as np
sys.path.insert(0, {folder!r})
from benchmarks.kernels import sparse_data
from sketchridge import solve, sparse_products
sparse_products.SMALL_WORK = 0  # the warm-up must compile what the solve will use
name, X, y = sparse_data()
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
solve(X[:300], y[:300], 1e-2, solver="svrg", rank=5, max_passes=10, random_state=0)
before = peak()
solve(X, y, 1e-5, solver="svrg", rank=30, max_passes=30, random_state=0)
print(peak() - before, X.data.nbytes + X.indices.nbytes + X.indptr.nbytes, *X.shape)
"""


def bench_memory():
    """Peak memory of a whole solve beyond what was there, in a process of its own."""
    folder = str(Path(__file__).resolve().parents[1])
    code = MEMORY.format(folder=folder)
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    extra, size, n, d = map(int, output.stdout.split())
    limit = 3 * size + (n + d) * RANK * 8 * 4
    print(
        f"{'peak memory beyond X, svrg with lanczos, k=30':<58} {extra / limit:5.2f} × of the limit"
        f"  {'ok' if extra <= limit else 'MISSED'}  ({extra / 1e6:.0f} MB of {limit / 1e6:.0f} MB)"
    )


def bench_start():
    """Import and first solve, in new processes."""
    solve = (
        "import numpy as np, time; from sketchridge import solve; "
        "X = np.random.default_rng(0).standard_normal((500, 50)); t = time.perf_counter(); "
        "solve(X, X[:, 0], 1e-3, solver='svrg', random_state=0); print(time.perf_counter() - t)"
    )
    numpy = np.median([process_seconds("import numpy") for _ in range(5)])
    for statement in ("import sketchridge", "from sketchridge import solve"):
        excess = np.median([process_seconds(statement) for _ in range(5)]) - numpy
        print(
            f"{statement + ' beyond numpy':<58} {excess:5.2f} s"
            f"  must be ≤ 0.3 s  {'ok' if excess <= 0.3 else 'MISSED'}"
        )
    empty = {**os.environ, "NUMBA_CACHE_DIR": f"/tmp/sketchridge-bench-{os.getpid()}"}
    for name, environment in (("empty", empty), ("warm", empty)):
        output = subprocess.run(
            [sys.executable, "-c", solve],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        print(
            f"first svrg solve in a new process, {name} cache{'':<16} {float(output.stdout):.2f} s"
        )


def process_seconds(code):
    return seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    bench_start()
    bench_memory()
    bench_sparse(arguments.repeats)
    bench_dense(arguments.repeats)
    print(f"peak memory of this run {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB")


if __name__ == "__main__":
    main()
