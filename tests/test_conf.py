"""Ready tasks: `dvc exp run -S task=NAME` writes a complete and valid params.yaml."""

import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from tests.conftest import ROOT
from tests.params import write_params
from tuneline.core.params.loading import known_keys, parse_params, read_yaml

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
    return keys.union(
        *(flat(value, f"{prefix}{key}.") for key, value in values.items() if isinstance(value, dict))
    )


def test_experiment_starts_from_params_yaml(root: Path, tmp_path: Path):
    """Values that only params.yaml has, those of `tuneline init` or of an editor, are not reset.

    It is the file of the tree with ``conf/``, whatever the current folder is.
    """
    shutil.copytree(root / "conf", tmp_path / "conf")
    write_params(tmp_path, train={"warmup_ratio": 0.75})
    written = read_yaml(tmp_path / "params.yaml")
    assert composed(tmp_path) == written
    assert composed(tmp_path, "seed=7") == {**written, "seed": 7}


@pytest.mark.parametrize("task", TASKS)
def test_task_is_valid_and_sets_every_key(task: str, root: Path):
    values = composed(root, f"task={task}")
    parse_params(values)
    assert set(known_keys()) <= flat(values)


@pytest.mark.parametrize("task", TASKS)
def test_checkpoint_on_the_command_line_clears_the_model_config_of_a_task(task: str, root: Path):
    """Hydra merges mappings, so `model.config={}` would leave the sizes of the task in place."""
    params = parse_params(
        composed(root, f"task={task}", "model.checkpoint=someone/bert", "model.config=null")
    )
    assert (params.model.checkpoint, params.model.config) == ("someone/bert", {})
