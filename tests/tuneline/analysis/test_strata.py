"""The strata of rows."""

import pyarrow as pa

from tuneline.analysis.strata import strata
from tuneline.tasks import Multilabel

TASK = Multilabel(("angry", "billing", "technical"))
NAMES = pa.list_(pa.string())


def test_each_label_is_a_stratum_and_no_label_is_one_but_a_missing_set_is_in_none():
    column = pa.array([["b", "a"], ["a"], [], None], NAMES)
    assert strata(TASK, column).to_pylist() == [["b", "a"], ["a"], [""], []]
