"""``tuneline run``: the name that an experiment gets. tests/pipeline/test_experiments.py runs the command."""

import pytest

from tuneline.cli.run import LONGEST, default_name
from tuneline.experiments.in_progress import _NAME


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ([], "base"),
        (["train.learning_rate=5e-5", "train.epochs=3"], "learning_rate=5e-5,epochs=3"),
        (["train.seed=1"], "train.seed=1"),
        (["seed=1"], "seed=1"),
        (["task=mrpc"], "task=mrpc"),
        (["model.checkpoint=models/source/my model"], "checkpoint=models-source-my-model"),
        (["train.betas=[0.8, 0.9]"], "betas=-0.8,-0.9"),
    ],
)
def test_name_says_what_differs(overrides, name):
    assert default_name(overrides) == name


@pytest.mark.parametrize("value", ["x" * 300, "../..", "@{u}", "a.lock", "\N{SNOWMAN}" * 3, "~^:?*["])
def test_any_value_gives_an_allowed_name(value):
    name = default_name([f"train.metric={value}"])
    assert _NAME.fullmatch(name)
    assert ".." not in name
    assert not name.endswith((".", ".lock"))
    assert len(name) <= LONGEST + 7
    assert default_name(["train.metric=" + "x" * 300]) != default_name(["train.metric=" + "x" * 301])
