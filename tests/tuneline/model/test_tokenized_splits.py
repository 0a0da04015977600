import numpy as np

from tuneline.model.tokenized_splits import TokenizedSplit
from tuneline.tasks import Regression

SPLIT = TokenizedSplit(
    {"input_ids": np.arange(40, dtype=np.int32)}, np.arange(41), np.arange(40, dtype=np.float32), Regression()
)


def test_sample_is_drawn_with_the_seed_and_in_the_order_of_the_file():
    labels = SPLIT.sample(10, 7).labels
    assert len(labels) == 10
    assert (np.diff(labels) > 0).all()
    assert SPLIT.sample(10, 7).labels.tolist() == labels.tolist()
    assert SPLIT.sample(10, 8).labels.tolist() != labels.tolist()


def test_sample_of_fewer_rows_is_the_split():
    assert SPLIT.sample(40, 7) is SPLIT
