"""The fit of a linear model of scikit-learn."""

import warnings
from typing import Any

from numpy.typing import NDArray


def fit_linear_model(model: Any, features: Any, answers: NDArray[Any]) -> None:
    """Fit a model to features, dense or sparse, of shape ``(rows, features)``.

    It need not converge: the limit of its iterations bounds the time.
    """
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    # NumPy and SciPy bring a BLAS each, with threads of its own, and L-BFGS calls both in turn: idle threads
    # of one take the cores of the other. On two cores, one thread is four times as fast (docs/benchmarks.md).
    with (
        warnings.catch_warnings(action="ignore", category=ConvergenceWarning),
        threadpool_limits(1, user_api="blas"),
    ):
        model.fit(features, answers)
