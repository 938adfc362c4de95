"""lightning (Blondel and Pedregosa): SDCA and SAGA."""

from benchmark_utils.runs import ALL_LEVELS
from benchmark_utils.wrapper import RidgeSolver
from lightning.impl.dataset_fast import get_dataset
from lightning.impl.sag_fast import get_auto_step_size
from lightning.regression import SAGARegressor, SDCARegressor


class Solver(RidgeSolver):
    """Its objective is 1/n Σ ½(xᵀw − y)² + alpha/2 ‖w‖², which is ours, for both solvers.

    SAGA's automatic step 1/L is too bold for text, where it never settles: the theory's third of
    it is tried as well.
    """

    name = "lightning"
    sampling_strategy = "iteration"
    requirements = ["pip::sklearn-contrib-lightning"]
    parameters = {"method, step": [("sdca", 1), ("saga", 1), ("saga", 0.33)]}
    levels = ALL_LEVELS

    def fit(self, X, y, lam, setting):
        common = {"loss": "squared", "max_iter": setting, "tol": 0, "random_state": 0}
        if self.method == "sdca":
            model = SDCARegressor(alpha=lam, l1_ratio=0, **common)
        else:
            step = self.step * get_auto_step_size(get_dataset(X, order="c"), lam, "squared")
            model = SAGARegressor(eta=step, alpha=lam, beta=0, penalty=None, **common)
        return model.fit(X, y).coef_
