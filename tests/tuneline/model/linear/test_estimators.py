"""Constant predictions, and the fit of linear models."""

import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info, threadpool_limits

from tuneline.model.linear.estimators import fitting


class Recording(LogisticRegression):
    """A logistic regression that records how many threads each BLAS has while it is fitted."""

    def fit(self, features, answers):
        self.threads_ = {
            pool["filepath"]: pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"
        }
        return super().fit(features, answers)


def test_models_are_fitted_by_one_thread_of_each_blas_and_need_not_converge():
    features = np.random.default_rng(0).normal(size=(200, 20))
    model = Recording(C=1e6, max_iter=2)
    with threadpool_limits(2, user_api="blas"), warnings.catch_warnings(action="error"), fitting():
        model.fit(features, features[:, 0] > 0)
    assert len(model.threads_) >= 2, "NumPy has one, SciPy another"
    assert set(model.threads_.values()) == {1}
