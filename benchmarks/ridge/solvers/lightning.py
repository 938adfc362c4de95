"""lightning (Blondel and Pedregosa): SDCA and SAGA."""

from benchmark_utils.wrapper import STOCHASTIC_LEVELS, RidgeSolver
from lightning.regression import SAGARegressor, SDCARegressor


class Solver(RidgeSolver):
    """Its objective is 1/n Σ ½(xᵀw − y)² + alpha/2 ‖w‖², which is ours, for both solvers."""

    name = "lightning"
    sampling_strategy = "iteration"
    requirements = ["pip::sklearn-contrib-lightning"]
    parameters = {"method": ["sdca", "saga"]}
    levels = STOCHASTIC_LEVELS

    def fit(self, X, y, lam, setting):
        common = {"loss": "squared", "max_iter": setting, "tol": 0, "random_state": 0}
        if self.method == "sdca":
            model = SDCARegressor(alpha=lam, l1_ratio=0, **common)
        else:
            model = SAGARegressor(alpha=lam, beta=0, penalty=None, **common)
        return model.fit(X, y).coef_
