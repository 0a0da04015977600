"""Ready tasks: `dvc exp run -S task=NAME` writes a complete and valid params.yaml."""

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
    """Compose params.yaml with Hydra as DVC does."""
    with initialize_config_dir(str(root / "conf"), version_base=None):
        config = compose(config_name="config", overrides=list(overrides))
    OmegaConf.resolve(config)
    return dict(OmegaConf.to_container(config))


def flat(values: dict[str, Any], prefix: str = "") -> set[str]:
    """Return dotted keys, including those of sections."""
    keys = {f"{prefix}{key}" for key in values}
    return keys.union(*(flat(value, f"{prefix}{key}.") for key, value in values.items() if isinstance(value, dict)))


def test_default_task_equals_params_yaml(root: Path):
    """An experiment rewrites params.yaml from conf/base.yaml, so a key that is missing there would be lost."""
    assert composed(root) == composed(root, "task=tickets") == read_yaml(root / "params.yaml")


def test_every_task_in_conf_is_tested(root: Path):
    assert {path.stem for path in (root / "conf/task").glob("*.yaml")} == set(TASKS)


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
    assert params.tokenize.tokenizer == params.model.checkpoint == "google-bert/bert-base-uncased"


@pytest.mark.parametrize("task", ["mrpc", "rte", "cola", "stsb", "sst2"])
def test_glue_task_reports_a_labelled_split_that_selects_no_model(task: str, root: Path):
    params = parse_params(composed(root, f"task={task}"))
    reported = getattr(params.data.splits, params.evaluate.split)
    assert reported == "validation"
    assert params.train.keep == "last" or params.data.splits.validation.startswith("train[")


def test_command_line_values_override_the_task(root: Path):
    params = parse_params(composed(root, "task=files", "data.path=reviews", "data.text_columns=[title,review]", "train.learning_rate=1e-3"))
    assert (params.data.path, params.data.text_columns, params.train.learning_rate) == ("reviews", ["title", "review"], 1e-3)
