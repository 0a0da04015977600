"""The ready tasks: what `dvc exp run -S task=NAME` writes to params.yaml is whole, and valid."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from tuneline.params.loading import known_keys, parse_params, read_yaml

TASKS = ["tickets", "files", "mrpc", "rte", "cola", "stsb", "sst2"]


@cache
def composed(root: Path, *overrides: str) -> dict[str, Any]:
    """What DVC would write to params.yaml: the same call of Hydra."""
    with initialize_config_dir(str(root / "conf"), version_base=None):
        config = compose(config_name="config", overrides=list(overrides))
    OmegaConf.resolve(config)
    return dict(OmegaConf.to_container(config))


def flat(values: dict[str, Any], prefix: str = "") -> set[str]:
    """Dotted keys, those of sections included."""
    keys = {f"{prefix}{key}" for key in values}
    return keys.union(*(flat(value, f"{prefix}{key}.") for key, value in values.items() if isinstance(value, dict)))


def test_the_default_task_is_what_params_yaml_says(root: Path):
    """A key that was added to params.yaml only is lost as soon as an experiment is run: it belongs in conf/base.yaml too."""
    assert composed(root) == composed(root, "task=tickets") == read_yaml(root / "params.yaml")


def test_every_task_of_the_folder_is_tested(root: Path):
    assert {path.stem for path in (root / "conf/task").glob("*.yaml")} == set(TASKS)


@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_valid_and_says_every_key(task: str, root: Path):
    values = composed(root, f"task={task}")
    parse_params(values)
    assert set(known_keys()) <= flat(values)


@pytest.mark.parametrize("task", ["mrpc", "rte", "cola", "stsb", "sst2"])
def test_a_task_with_a_checkpoint_overrides_nothing_of_its_configuration(task: str, root: Path):
    """The sample's small sizes in model.config would cut down the checkpoint."""
    params = parse_params(composed(root, f"task={task}"))
    assert params.model.config == {}
    assert params.tokenize.tokenizer == params.model.checkpoint == "google-bert/bert-base-uncased"


@pytest.mark.parametrize("task", ["mrpc", "rte", "cola", "stsb", "sst2"])
def test_no_glue_task_selects_on_the_split_that_it_reports_or_reports_on_an_unlabelled_one(task: str, root: Path):
    params = parse_params(composed(root, f"task={task}"))
    reported = getattr(params.data.splits, params.evaluate.split)
    assert reported == "validation"
    assert params.train.keep == "last" or params.data.splits.validation.startswith("train[")


def test_values_on_the_command_line_win(root: Path):
    params = parse_params(composed(root, "task=files", "data.path=reviews", "data.text_columns=[title,review]", "train.learning_rate=1e-3"))
    assert (params.data.path, params.data.text_columns, params.train.learning_rate) == ("reviews", ["title", "review"], 1e-3)
