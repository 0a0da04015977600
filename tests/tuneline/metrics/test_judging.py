"""Which metrics judge a task."""

import pytest

from tuneline.metrics.judging import averaging
from tuneline.runtime.errors import ParamsError
from tuneline.tasks import Multilabel

TASK = Multilabel(("angry", "billing", "technical"))


def test_binary_averaging_is_refused():
    with pytest.raises(ParamsError, match=r"evaluate\.f1"):
        averaging(TASK, "binary")
