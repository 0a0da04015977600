import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info, threadpool_limits

from tuneline.linear.fitting import fit_linear_model

FEATURES = np.random.default_rng(0).normal(size=(200, 20))
ANSWERS = (FEATURES[:, 0] > 0).astype(np.int64)


class Recording(LogisticRegression):
    """A logistic regression that records how many threads each BLAS has while it is fitted."""

    def fit(self, features, answers):
        self.threads_ = {
            pool["filepath"]: pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"
        }
        return super().fit(features, answers)


def test_every_blas_has_one_thread_while_a_model_is_fitted():
    model = Recording()
    with threadpool_limits(2, user_api="blas"):
        fit_linear_model(model, FEATURES, ANSWERS)
    assert len(model.threads_) >= 2, "NumPy has one, SciPy another"
    assert set(model.threads_.values()) == {1}


def test_fit_that_ends_by_its_limit_is_no_warning():
    model = LogisticRegression(C=1e6, max_iter=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_linear_model(model, FEATURES, ANSWERS)
    assert model.n_iter_ == 2
