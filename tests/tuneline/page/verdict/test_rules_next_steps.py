import pytest

from tests.tuneline.page.verdict.runs import FINE_TUNED, FROZEN, UNCLEAR
from tuneline.page.verdict.facts import RunFacts
from tuneline.page.verdict.rules import next_steps


@pytest.mark.parametrize(
    ("params", "commands"),
    [
        (
            FINE_TUNED,
            [
                "dvc exp run --queue -S train.learning_rate=5e-05,0.0002 train",
                "dvc exp run --run-all && tuneline experiments",
            ],
        ),
        (FROZEN, []),
    ],
)
def test_next_steps_are_those_of_a_training_and_a_review(params, commands):
    steps = next_steps(RunFacts(UNCLEAR, params=params))
    assert [command for command, _ in steps] == [*commands, "tuneline labels review"]
