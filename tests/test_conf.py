"""Ready tasks: `dvc exp run -S task=NAME` writes a complete and valid params.yaml."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from tests.conftest import ROOT
from tuneline.params.loading import known_keys, parse_params, read_yaml

TASKS = sorted(path.stem for path in (ROOT / "conf/task").glob("*.yaml"))


@cache
def composed(root: Path, *overrides: str) -> dict[str, Any]:
    """Compose params.yaml with Hydra as DVC does."""
    with initialize_config_dir(str(root / "conf"), version_base=None):
        config = compose(config_name="config", overrides=list(overrides))
    OmegaConf.resolve(config)
    return dict(OmegaConf.to_container(config))


def flat(values: dict[str, Any], prefix: str = "") -> set[str]:
    """Return dotted keys, including those of sections."""
    keys = {f"{prefix}{key}" for key in values}
    return keys.union(*(flat(value, f"{prefix}{key}.") for key, value in values.items() if isinstance(value, dict)))


def flat_values(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values that are not sections, by dotted key."""
    leaves: dict[str, Any] = {}
    for key, value in values.items():
        leaves |= flat_values(value, f"{prefix}{key}.") if isinstance(value, dict) and value else {f"{prefix}{key}": value}
    return leaves


def test_default_task_equals_params_yaml(root: Path):
    """An experiment rewrites params.yaml from conf/, so a value that is only in params.yaml would be lost."""
    assert composed(root) == composed(root, "task=tickets")
    composed_values, written = flat_values(composed(root)), flat_values(read_yaml(root / "params.yaml"))
    lost = {key: value for key, value in written.items() if key not in composed_values or composed_values[key] != value}
    assert not lost, "`dvc exp run -S` would reset these values of params.yaml: write them to conf/base.yaml or conf/task/tickets.yaml too"
    assert written.keys() == composed_values.keys()


@pytest.mark.parametrize("task", TASKS)
def test_task_is_valid_and_sets_every_key(task: str, root: Path):
    values = composed(root, f"task={task}")
    parse_params(values)
    assert set(known_keys()) <= flat(values)


@pytest.mark.parametrize("task", ["mrpc", "rte", "cola", "stsb", "sst2"])
def test_task_with_a_checkpoint_keeps_the_model_config_of_the_checkpoint(task: str, root: Path):
    """The small sizes of the default task in model.config would not fit the checkpoint."""
    params = parse_params(composed(root, f"task={task}"))
    assert params.model.config == {}
    assert params.model.checkpoint == "google-bert/bert-base-uncased"
    assert params.tokenize.tokenizer is None, "it is the checkpoint's own"


@pytest.mark.parametrize("task", ["mrpc", "rte", "cola", "stsb", "sst2"])
def test_glue_task_reports_a_labelled_split_that_selects_no_model(task: str, root: Path):
    params = parse_params(composed(root, f"task={task}"))
    reported = getattr(params.data.splits, params.evaluate.split)
    assert reported == "validation"
    assert params.train.keep == "last" or params.data.splits.validation.startswith("train[")


def test_command_line_values_override_the_task(root: Path):
    params = parse_params(composed(root, "task=files", "data.path=reviews", "data.text_columns=[title,review]", "train.learning_rate=1e-3"))
    assert (params.data.path, params.data.text_columns, params.train.learning_rate) == ("reviews", ["title", "review"], 1e-3)


def test_checkpoint_on_the_command_line_clears_the_model_config_of_a_task(root: Path):
    """Hydra merges mappings, so `model.config={}` would leave the sizes of the task in place."""
    params = parse_params(composed(root, "task=files", "model.checkpoint=someone/bert", "model.config=null"))
    assert (params.model.checkpoint, params.model.config) == ("someone/bert", {})


def test_files_of_conf_are_valid_yaml(root: Path):
    for path in (root / "conf").rglob("*.yaml"):
        assert read_yaml(path), path
