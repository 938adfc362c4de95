"""A fitted model as a file: numbers and JSON, nothing that could be executed.

The file is an npz archive. Its arrays are float64; the member `about` is a JSON document in
UTF-8. Loading checks the format's version, the shapes and that every coefficient is finite.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge import validation
from sketchridge.files import atomic_write
from sketchridge.products import DenseProducts, Products
from sketchridge.solution import Forecast, Plan, Record, Solution, Status
from sketchridge.sparse_products import SparseProducts
from sketchridge.version import __version__

Array = NDArray[np.float64]

FORMAT = 1
MARK = "sketchridge model"
# Rows of a dense matrix are predicted in blocks of about this size: it may be a memory map.
BLOCK_BYTES = 32 << 20
PER_TARGET = ("intercept", "objective", "gap", "relative_gap", "explained_gap")


class ModelError(ValueError):
    """A file that is no model, or data that does not go with it."""


@dataclass(frozen=True, eq=False)
class Model:
    """Coefficients with their certificate and plan.

    `coef` is (d,) for one target and (t, d) for several; what is one number a target has the
    shape () or (t,).
    """

    coef: Array
    intercept: Array
    objective: Array
    gap: Array  # certified: F(coef) − F* is at most this
    relative_gap: Array  # gap / F(0)
    explained_gap: Array  # gap / (F(0) − F(coef))
    lam: float
    tol: float
    fit_intercept: bool
    scale_rows: bool
    status: Status
    plan: Plan
    passes: float
    seconds: float
    shape: tuple[int, int]  # of the data that it was fitted to
    history: tuple[Record, ...]
    feature_names: tuple[str, ...] | None = None
    target: str | None = None  # the column that was fitted, where columns have names
    zero_based: bool | None = None  # how its LIBSVM file counted the columns
    version: str = __version__

    @classmethod
    def of(
        cls,
        solution: Solution,
        lam: float,
        *,
        fit_intercept: bool = False,
        scale_rows: bool = False,
        feature_names: tuple[str, ...] | None = None,
        target: str | None = None,
        zero_based: bool | None = None,
    ) -> Model:
        """The model that a solution makes."""
        return cls(
            coef=solution.coef,
            intercept=np.asarray(solution.intercept, float),
            objective=np.asarray(solution.objective, float),
            gap=np.asarray(solution.gap, float),
            relative_gap=np.asarray(solution.relative_gap, float),
            explained_gap=np.asarray(solution.explained_gap, float),
            lam=lam,
            tol=solution.tol,
            fit_intercept=fit_intercept,
            scale_rows=scale_rows,
            status=solution.status,
            plan=solution.plan,
            passes=solution.passes,
            seconds=solution.seconds,
            shape=solution.shape,
            history=solution.history,
            feature_names=feature_names,
            target=target,
            zero_based=zero_based,
        )

    @property
    def features(self) -> int:
        """The number d of columns that it takes."""
        return int(self.coef.shape[-1])

    @property
    def converged(self) -> bool:
        """Whether the certified gap of every target is within the tolerance."""
        return bool(np.all(self.relative_gap <= self.tol))

    def predict(self, X: Any) -> Array:
        """The predictions, (n,) or (n, t); dense rows are read in blocks."""
        if len(X.shape) != 2 or X.shape[1] != self.features:
            raise ModelError(
                f"the data has shape {tuple(X.shape)} and the model takes {self.features} "
                "columns: give data with the columns that it was fitted to"
            )
        step = X.shape[0]
        if isinstance(X, np.ndarray):
            step = max(1, BLOCK_BYTES // (8 * self.features))
        weights = np.ascontiguousarray(self.coef.reshape(-1, self.features).T)
        blocks = [
            _multiply(X[start : start + step], weights) for start in range(0, X.shape[0], step)
        ]
        values = np.concatenate(blocks) + self.intercept
        wrong = np.flatnonzero(~np.all(np.isfinite(values), axis=1))
        if wrong.size:
            raise ModelError(
                f"the data has NaN, infinite or overflowing values in row {wrong[0]} "
                f"({wrong.size} row(s) in all): clean it"
            )
        return values[:, 0] if self.coef.ndim == 1 else values

    def as_dict(self) -> dict[str, Any]:
        """All but the coefficients and the history, as JSON takes it."""
        return {
            "rows": self.shape[0],
            "features": self.features,
            "targets": 1 if self.coef.ndim == 1 else int(self.coef.shape[0]),
            "lam": self.lam,
            **{name: json_number(getattr(self, name)) for name in PER_TARGET},
            "tol": self.tol,
            "converged": self.converged,
            "status": self.status.name.lower(),
            "status_in_words": self.status.value,
            "plan": _plan_document(self.plan),
            "passes": self.passes,
            "seconds": self.seconds,
            "fit_intercept": self.fit_intercept,
            "scale_rows": self.scale_rows,
            "feature_names": self.feature_names,
            "target": self.target,
            "sketchridge": self.version,
        }

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        about = {
            "format": [MARK, FORMAT],
            "lam": self.lam,
            "tol": self.tol,
            "fit_intercept": self.fit_intercept,
            "scale_rows": self.scale_rows,
            "status": self.status.name,
            "plan": asdict(self.plan),
            "passes": self.passes,
            "seconds": self.seconds,
            "shape": self.shape,
            "events": [record.event for record in self.history],
            "feature_names": self.feature_names,
            "target": self.target,
            "zero_based": self.zero_based,
            "version": self.version,
        }
        with atomic_write(path) as file:
            np.savez(
                file,
                about=np.frombuffer(json.dumps(about).encode(), np.uint8),
                coef=self.coef,
                history=_history_array(self.history),
                **{name: getattr(self, name) for name in PER_TARGET},
            )

    @classmethod
    def load(cls, path: Path) -> Model:
        """Read a file that `save` wrote; anything else is refused in words."""
        arrays, about = _read(path)
        try:
            model = cls(
                coef=_floats(arrays["coef"]),
                intercept=_floats(arrays["intercept"]),
                objective=_floats(arrays["objective"]),
                gap=_floats(arrays["gap"]),
                relative_gap=_floats(arrays["relative_gap"]),
                explained_gap=_floats(arrays["explained_gap"]),
                lam=float(about["lam"]),
                tol=float(about["tol"]),
                fit_intercept=bool(about["fit_intercept"]),
                scale_rows=bool(about["scale_rows"]),
                status=Status[about["status"]],
                plan=_plan(about["plan"]),
                passes=float(about["passes"]),
                seconds=float(about["seconds"]),
                shape=(int(about["shape"][0]), int(about["shape"][1])),
                history=_history_records(_floats(arrays["history"]), about["events"]),
                feature_names=_names(about["feature_names"]),
                target=_text(about["target"]),
                zero_based=about.get("zero_based"),
                version=str(about["version"]),
            )
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ModelError(f"{path} is a damaged model ({error}): fit it anew") from error
        _check(path, model)
        return model


def json_number(values: Any) -> Any:
    """A number, or a list of them, with None where JSON has no number."""
    array = np.asarray(values, float)
    if array.ndim:
        return [json_number(value) for value in array]
    return float(array) if np.isfinite(array) else None


def _multiply(X: Any, weights: Array) -> Array:
    matrix, _ = validation.check_matrix(X)
    dense = isinstance(matrix, np.ndarray)
    products: Products = DenseProducts(matrix) if dense else SparseProducts(matrix)
    with np.errstate(over="ignore", invalid="ignore"):
        return products.multiply(weights)


def _read(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays and the document of a model file."""
    remedy = "give a file that `sketchridge fit --out` wrote"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if "about" not in archive.files:
                raise ModelError(f"{path} is an npz file, but not a model: {remedy}")
            about = json.loads(bytes(archive["about"].astype(np.uint8)))
            mark, version = about["format"]
            if mark != MARK:
                raise ModelError(f"{path} is not a model: {remedy}")
            if version != FORMAT:
                raise ModelError(
                    f"{path} is a model of format {version} and this version reads {FORMAT}: "
                    "upgrade sketchridge, or fit it anew"
                )
            return {name: archive[name] for name in archive.files if name != "about"}, about
    except ModelError:
        raise
    except FileNotFoundError as error:
        raise ModelError(f"{path} does not exist: {remedy}") from error
    except IsADirectoryError as error:
        raise ModelError(f"{path} is a folder: {remedy}") from error
    except PermissionError as error:
        raise ModelError(f"{path} may not be read: change its permissions") from error
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        EOFError,
        MemoryError,
        NotImplementedError,
        RecursionError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise ModelError(f"{path} is not a model, or a damaged one: {remedy}") from error


def _floats(array: NDArray[Any]) -> Array:
    if array.dtype != np.float64:
        raise ValueError(f"an array of {array.dtype}")
    return array


def _plan(document: dict[str, Any]) -> Plan:
    def forecast(known: dict[str, Any]) -> Forecast:
        numbers: dict[str, Any] = {n: np.nan if v is None else v for n, v in known.items()}
        return Forecast(**numbers)

    forecasts = tuple(map(forecast, document["forecasts"]))
    return Plan(**{**document, "notes": tuple(document["notes"]), "forecasts": forecasts})


def _plan_document(plan: Plan) -> dict[str, Any]:
    """A plan as JSON takes it: of some methods nothing was expected, or that they never arrive."""
    document = asdict(plan)
    for forecast in document["forecasts"]:
        forecast |= {name: json_number(forecast[name]) for name in ("passes", "seconds")}
    return document


def _names(names: Any) -> tuple[str, ...] | None:
    return None if names is None else tuple(str(name) for name in names)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise ValueError(f"{value!r} is no name")


def _check(path: Path, model: Model) -> None:
    """Shapes agree, and every coefficient is finite."""
    targets = model.coef.shape[:-1]
    sound = model.coef.ndim in (1, 2) and model.coef.size > 0
    sound = sound and all(getattr(model, name).shape == targets for name in PER_TARGET)
    sound = sound and model.shape[1] == model.features
    if model.feature_names is not None:
        sound = sound and len(model.feature_names) == model.features
    if not sound:
        raise ModelError(f"{path} is a damaged model: its shapes disagree; fit it anew")
    if not (np.all(np.isfinite(model.coef)) and np.all(np.isfinite(model.intercept))):
        raise ModelError(f"{path} is a damaged model: it has coefficients that are no numbers")


def _history_array(history: tuple[Record, ...]) -> Array:
    rows = [
        (r.passes, r.seconds, r.objective, r.gap, r.relative_gap, float(r.certified))
        for r in history
    ]
    return np.array(rows, float).reshape(-1, 6)


def _history_records(rows: Array, events: list[Any]) -> tuple[Record, ...]:
    if rows.ndim != 2 or rows.shape != (len(events), 6):
        raise ValueError("its history is broken")
    return tuple(
        Record(passes, seconds, objective, gap, relative_gap, bool(certified), event)
        for (passes, seconds, objective, gap, relative_gap, certified), event in zip(
            rows.tolist(), events, strict=True
        )
    )
