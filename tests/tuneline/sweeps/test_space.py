"""Sweep files, and what is drawn from them."""

import pytest

from tuneline.runtime.errors import ParamsError
from tuneline.sweeps.space import Sweep, all_draws, next_draw

PARAMETERS = {
    "train.learning_rate": {"low": 1e-5, "high": 1e-3, "log": True},
    "train.epochs": {"low": 1, "high": 3},
    "train.schedule": {"choice": ["linear", "constant"]},
    "train.warmup_ratio": {"choice": [0.0, 0.1], "when": {"train.schedule": "linear"}},
    "train.seed": {"choice": [1, 2]},
}


def sweep(parameters=PARAMETERS, **more):
    return Sweep.model_validate({"parameters": parameters, "trials": 8, **more})


@pytest.mark.parametrize("sampler", ["random", "quasi-random"])
def test_draws_depend_on_the_seed_alone(sampler):
    draws = all_draws(sweep(sampler=sampler))
    assert draws == all_draws(sweep(sampler=sampler))
    assert draws != all_draws(sweep(sampler=sampler, seed=1))
    assert len(draws) == 8


@pytest.mark.parametrize("sampler", ["random", "quasi-random"])
def test_draws_are_in_the_space(sampler):
    for values in all_draws(sweep(sampler=sampler, trials=30)):
        assert 1e-5 <= values["train.learning_rate"] <= 1e-3
        assert values["train.epochs"] in (1, 2, 3)
        assert ("train.warmup_ratio" in values) == (values["train.schedule"] == "linear")
        assert "train.seed" not in values  # every configuration has every seed


def test_small_space_is_drawn_once():
    draws = all_draws(sweep({"train.epochs": {"choice": [1, 2, 3]}}))
    assert sorted(values["train.epochs"] for values in draws) == [1, 2, 3]


def test_grid_has_every_combination_whose_conditions_hold():
    grid = all_draws(
        sweep({**PARAMETERS, "train.learning_rate": {"choice": [1e-4, 1e-5]}}, sampler="grid", trials=None)
    )
    assert len(grid) == 2 * 3 * (2 + 1)


def test_tpe_draws_the_same_after_the_same_results_and_learns_from_them():
    space = sweep(
        {
            "train.learning_rate": {"low": 1e-6, "high": 1e-2, "log": True},
            "train.keep": {"choice": ["best", "last"]},
        },
        sampler="tpe",
        trials=30,
    )
    draws, results = [], []
    for number in range(30):
        values = next_draw(space, draws, results, ["maximize"])
        assert values == next_draw(space, draws, results, ["maximize"])
        draws.append(values)
        rate = values["train.learning_rate"]
        results.append([] if number == 1 else [-abs(rate - 1e-4) / 1e-4 - (values["train.keep"] == "last")])
    assert next_draw(space, draws[:3], [*results[:2], None], ["maximize"]) is not None  # one is being trained
    late = [values for values in draws[15:] if 2e-5 < values["train.learning_rate"] < 5e-4]
    assert len(late) > 8


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"parameters": {"seed": {"choice": [1, 2]}}}, "parameters.seed: it changes the rows"),
        ({"parameters": {"train.epochs": {"choise": [1, 2]}}}, "parameters.train.epochs"),
        ({"parameters": {"train.epochs": {"low": 3, "high": 1}}}, "low: must be less than high"),
        (
            {"parameters": {"train.learning_rate": {"low": 0.1, "high": 0.2}}, "sampler": "grid"},
            "a grid needs a `step`",
        ),
        (
            {"parameters": {"train.warmup_ratio": PARAMETERS["train.warmup_ratio"]}},
            "train.schedule is none of the parameters above it",
        ),
        ({"trials": None}, "trials: give the number"),
        ({"sampler": "tea"}, "sampler"),
        ({"trails": 3}, "trails: unknown key; did you mean trials?"),
        (
            {"objectives": ["accuracy", "int8_latency_ms"], "halving": {"first_steps": 4}},
            "halving: set it to null",
        ),
    ],
)
def test_error_in_a_file_names_the_key(tmp_path, changes, named):
    from ruamel.yaml import YAML

    path = tmp_path / "conf/sweep/wrong.yaml"
    path.parent.mkdir(parents=True)
    YAML(typ="safe").dump({"parameters": {"train.epochs": {"choice": [1]}}, "trials": 3, **changes}, path)
    with pytest.raises(ParamsError) as error:
        Sweep.read(path)
    assert named in str(error.value)
    assert str(path) in str(error.value)


def test_missing_file_lists_those_that_exist(tmp_path):
    (tmp_path / "conf/sweep").mkdir(parents=True)
    (tmp_path / "conf/sweep/first.yaml").touch()
    with pytest.raises(ParamsError, match=r"conf/sweep/first\.yaml"):
        Sweep.read(tmp_path / "conf/sweep/second.yaml")
