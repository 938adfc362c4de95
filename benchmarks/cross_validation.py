"""Choosing the penalty: our search against scikit-learn's, in the same run, at the same accuracy.

    python benchmarks/cross_validation.py              20 alphas × 5 folds, IMDB and MNIST
    python benchmarks/cross_validation.py --repeats 5  steadier medians
    python benchmarks/cross_validation.py --jobs 2     scikit-learn's search in two processes too

The accuracy is a certified relative gap of 1e-6 for every alpha and fold. scikit-learn's
solvers have tolerances of another meaning: for each of them the loosest is taken with which all
alphas reach that gap on the first fold, told by F(w) minus a certified lower bound of the minimum.
The fastest of them is then timed. Data: imdb_tfidf.npz and mnist_4v7.npz in the folder named by
SKETCHRIDGE_DATA.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn import linear_model
from sklearn.model_selection import GridSearchCV, KFold

from sketchridge import RidgeCV
from sketchridge.crossvalidation import Samples, trace_folds
from sketchridge.driver import check_controls

TOL = 1e-6
ALPHAS = np.logspace(-2, 3, 20)
FOLDS = KFold(5)
TOLERANCES = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6)
GOAL = 1 / 5


def load(name):
    """The data in float64, and which of scikit-learn's solvers it allows."""
    with np.load(Path(os.environ["SKETCHRIDGE_DATA"]) / f"{name}.npz") as file:
        y = np.where(file["y"] == file["y"].min(), -1.0, 1.0)
        if "X" in file:
            return file["X"].astype(np.float64) / 255, y, ("cholesky", "lsqr", "sparse_cg")
        arrays = (file["data"].astype(np.float64), file["indices"], file["indptr"])
        X = sparse.csr_array(arrays, shape=tuple(file["shape"].tolist()))
        return X, y, ("sparse_cg", "lsqr")


class FirstFold:
    """The first fold, with certified lower bounds of its minima."""

    def __init__(self, X, y):
        self.alphas = ALPHAS[::-1]
        splits = [next(FOLDS.split(X))]
        samples = Samples(X, y[:, None], np.ones(y.size), True)
        controls = check_controls(tol=1e-10)
        (fold,) = trace_folds(samples, lambda weight: self.alphas / weight, splits, controls)
        self.problem, self.lams = fold.tracer.problem, fold.tracer.lams
        self.lowest = (fold.tracer.objective - fold.tracer.gap)[:, 0]
        self.X, self.y = X[fold.train], y[fold.train]

    def gap(self, coef, index):
        """The certified relative gap of coefficients for one of the alphas."""
        problem = self.problem.at(float(self.lams[index]))
        objective = problem.evaluate(coef[:, None]).objective[0]
        return (objective - self.lowest[index]) / problem.null_objective[0]

    def all_reach(self, solver, tol, patience):
        """Whether all alphas reach the gap, the hardest first, and the seconds they take.

        A solver that takes longer than another one took is not waited for.
        """
        spent = 0.0
        for index in reversed(range(self.alphas.size)):
            model = linear_model.Ridge(self.alphas[index], solver=solver, tol=tol)
            began = time.perf_counter()
            model.fit(self.X, self.y)
            spent += time.perf_counter() - began
            if self.gap(model.coef_, index) > TOL or spent > patience:
                return False, spent
        return True, spent


def calibrate(X, y, solvers):
    """scikit-learn's fastest solver, with the loosest tolerance that does."""
    fold = FirstFold(X, y)
    found = {}
    for solver in solvers:
        patience = min((spent for spent, _ in found.values()), default=np.inf)
        for tol in TOLERANCES[:1] if solver == "cholesky" else TOLERANCES:
            reached, spent = fold.all_reach(solver, tol, patience)
            if reached:
                found[solver] = (spent, tol)
                print(f"  scikit-learn, {solver}, tol={tol:g}: {spent:.1f} s for the first fold")
            if reached or spent > patience:
                break
    solver = min(found, key=lambda name: found[name][0])
    return linear_model.Ridge(solver=solver, tol=found[solver][1])


def timed_fit(estimator, X, y):
    began = time.perf_counter()
    estimator.fit(X, y)
    return time.perf_counter() - began


def measure(name, repeats, jobs):
    X, y, solvers = load(name)
    print(f"{name}: {X.shape[0]} × {X.shape[1]}, {ALPHAS.size} alphas × 5 folds and the final fit")
    plain = calibrate(X, y, solvers)
    RidgeCV(ALPHAS[-3:], cv=FOLDS).fit(X, y)  # compiled code is loaded
    for processes in jobs:
        search = GridSearchCV(plain, {"alpha": ALPHAS}, cv=FOLDS, n_jobs=processes)
        model = RidgeCV(ALPHAS, cv=FOLDS, tol=TOL)
        pairs = []
        for _ in range(repeats):
            pairs.append((timed_fit(model, X, y), timed_fit(search, X, y)))
            assert model.cv_relative_gap_ <= TOL and np.all(model.relative_gap_ <= TOL)
            assert model.alpha_ == search.best_params_["alpha"]
        report(name, plain.solver, processes, np.array(pairs))


def report(name, solver, processes, pairs):
    ratios = pairs[:, 0] / pairs[:, 1]
    ours, theirs = np.median(pairs, axis=0)
    verdict = "ok" if np.median(ratios) <= GOAL else "MISSED"
    goal = f"must be ≤ {GOAL:.2f}  {verdict}" if name == "imdb_tfidf" else "reported"
    beside = f"{solver}, {processes} process{'es' * (processes > 1)}"
    print(
        f"{name}, over GridSearchCV ({beside})  {np.median(ratios):.3f} × "
        f"[{ratios.min():.3f}, {ratios.max():.3f}]  {goal}  ({ours:.1f} s against {theirs:.1f} s)"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--jobs", type=int, nargs="*", default=[1])
    parser.add_argument("--data", nargs="*", default=["imdb_tfidf", "mnist_4v7"])
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # scikit-learn's, while its tolerance is looked for
    for name in options.data:
        measure(name, options.repeats, options.jobs)


if __name__ == "__main__":
    main()
