"""The file of a sweep: what is drawn from it, and what is refused."""

import pytest
from ruamel.yaml import YAML

from tuneline.core.runtime.errors import ParamsError
from tuneline.operations.experiments.sweep_space import Sweep

RATE = {"low": 1e-5, "high": 1e-3, "log": True}


def test_draws_are_spread_over_the_range_and_depend_on_the_seed_alone():
    space = {"parameters": {"train.learning_rate": RATE, "train.epochs": {"low": 1, "high": 3}}, "trials": 10}
    draws = Sweep.model_validate(space).configurations()
    assert draws == Sweep.model_validate(space).configurations() != Sweep(**space, seed=1).configurations()
    rates = sorted(draw["train.learning_rate"] for draw in draws)
    assert sum(rate < 1e-4 for rate in rates) == 5, "half of them are in the lower magnitude"
    assert {draw["train.epochs"] for draw in draws} == {1, 2, 3}


def test_without_trials_all_combinations_are_tried():
    parameters = {"train.epochs": {"choice": [1, 2]}, "train.keep": {"choice": ["best", "last"]}}
    assert Sweep.model_validate({"parameters": parameters}).configurations() == [
        {"train.epochs": 1, "train.keep": "best"},
        {"train.epochs": 1, "train.keep": "last"},
        {"train.epochs": 2, "train.keep": "best"},
        {"train.epochs": 2, "train.keep": "last"},
    ]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (
            {"parameters": {"train.learningrate": {"choice": [1]}}},
            "train.learningrate: unknown key; did you mean train.learning_rate",
        ),
        ({"parameters": {"train.epochs": {"choice": [1]}}, "trails": 3}, "did you mean trials"),
        ({"parameters": {"train.epochs": {"low": 3, "high": 1}}, "trials": 3}, "low less than high"),
        ({"parameters": {"train.learning_rate": RATE}}, "without `trials`"),
        ({"parameters": {"data.max_rows": {"choice": [1]}}}, "changes the rows"),
        (
            {"parameters": {"train.epsilon": {"low": 0.0, "high": 1.0, "log": True}}, "trials": 3},
            "more than 0",
        ),
    ],
)
def test_file_that_makes_no_sense_is_refused(tmp_path, content, named):
    path = tmp_path / "mine.yaml"
    YAML(typ="safe").dump(content, path)
    with pytest.raises(ParamsError, match=named):
        Sweep.read(path)
