from pathlib import Path

import pytest

from tests.tuneline.page.verdict.runs import FINE_TUNED, FROZEN, UNCLEAR
from tuneline.page.verdict.facts import RunFacts
from tuneline.page.verdict.rules import next_steps

SWEEP = Path("conf/sweep/first.yaml")


@pytest.mark.parametrize(
    ("params", "sweep", "command"),
    [
        (FINE_TUNED, SWEEP, "tuneline sweep conf/sweep/first.yaml"),
        (FINE_TUNED, None, "dvc exp run --temp train -S train.learning_rate=5e-05"),
        (FROZEN, SWEEP, "tuneline labels review"),
    ],
)
def test_next_steps_are_those_of_a_training_and_a_review(params, sweep, command):
    steps = next_steps(RunFacts(UNCLEAR, params=params, sweep=sweep))
    assert steps[0][0] == command
    assert steps[-1][0] == "tuneline labels review"
