from pathlib import Path

from tests.tuneline.results.verdict.runs import (
    FINE_TUNED,
    IMPROVING,
    SCRATCH,
    UNCLEAR,
)
from tuneline.results.verdict.facts import RunFacts
from tuneline.results.verdict.rules import next_steps


def commands(run: RunFacts) -> list[str]:
    return [command for command, _ in next_steps(run)]


def test_next_steps_name_no_alternative_of_a_parameter_that_is_set():
    by_steps = SCRATCH | {"train.epochs": None, "train.max_steps": 60}
    named = commands(RunFacts({}, params=by_steps, validation=IMPROVING))
    assert "train.max_steps=120" in named[0]
    assert not any("epochs" in command for command in named)


def test_next_steps_begin_with_what_the_verdict_advises():
    sweep = Path("conf/sweep/first.yaml")
    steps = next_steps(RunFacts(UNCLEAR, params=FINE_TUNED, sweep=sweep))
    assert [command for command, _ in steps] == [
        "dvc exp run --temp train -S model.head=auto",
        "tuneline sweep conf/sweep/first.yaml",
        "tuneline labels review",
    ]
