"""``KEY=VALUE`` on a command line: other values in the text of ``params.yaml``.

All values are checked; comments and layout are kept.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from tuneline.core.launch import check_launch
from tuneline.core.yaml_files import read_yaml
from tuneline.experiments import compose
from tuneline.metrics.table import METRIC_TABLE
from tuneline.params.loading import known_keys, parse_params, suggestion
from tuneline.params.params_file import changed, get_value
from tuneline.params.section import FunctionName, check_functions
from tuneline.paths import PARAMS, PIPELINE
from tuneline.runtime.errors import ParamsError

ALTERNATIVES = (("train.epochs", "train.max_steps"), ("train.warmup_ratio", "train.warmup_steps"))
"""Pairs of parameters; one of each pair is null."""


def parse_overrides(root: Path, overrides: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return new values by dotted key, and the overrides that choose a file of a folder in ``conf/``.

    ``task=mrpc`` is such a choice. If the overrides set one of a pair of alternatives, the other becomes
    null.

    Raises:
        ParamsError: An override is not ``KEY=VALUE``, or there is no such parameter.
    """
    values: dict[str, Any] = {}
    groups = []
    for override in overrides:
        key, _, text = override.partition("=")
        folder = root / "conf" / key
        if "." not in key and folder.is_dir():
            _check_group(override, folder / f"{text}.yaml")
            groups.append(override)
        else:
            values[key] = _value(override)
    return with_alternatives(values), groups


def with_alternatives(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return new values, in which the other one of a pair of alternatives is null."""
    completed = dict(values)
    for pair in ALTERNATIVES:
        chosen = [key for key in pair if values.get(key) is not None]
        if len(chosen) != 1:
            continue
        for key in pair:
            completed.setdefault(key, None)
    return completed


def check_key(key: str) -> None:
    """Check that there is such a parameter, else a ``ParamsError`` names the nearest one."""
    if not _is_known(key):
        nearest = suggestion(key, list(known_keys(optional=True)))
        raise ParamsError(f"{key}: unknown key{nearest}")


def params_with(root: Path, values: Mapping[str, Any], groups: Sequence[str] = ()) -> str:
    """Return the text of ``params.yaml`` with other values, composed by Hydra if there are ``groups``.

    Raises:
        ParamsError: A value, or what it names, is invalid. Nothing was changed.
    """
    path = root / PARAMS
    required: dict[str, Any] = {}
    if groups:
        required.update(_composed(root, groups))
    required.update(values)
    text = changed(path, required)
    params = parse_params(YAML(typ="safe", pure=True).load(text), path, given=required)

    # What the values name: functions of the user, launch settings, the metric.
    pipeline = None
    if params.functions and (root / PIPELINE).exists():
        pipeline = read_yaml(root / PIPELINE)
    check_functions(params.functions, root, pipeline)
    check_launch(params.train.launch, params.train.optimizer)
    _check_metric(params.train.metric)
    return text


def _check_metric(name: str) -> None:
    validated = [metric.name for metric in METRIC_TABLE.values() if metric.validated]
    if name not in validated and not FunctionName.matches(name):
        raise ParamsError(
            f"train.metric: {name!r} is not a metric.",
            f"Choose one of {', '.join(validated)}, or write project/FILE.py:FUNCTION.",
        )


def _check_group(override: str, file: Path) -> None:
    if not file.is_file():
        names = ", ".join(sorted(path.stem for path in file.parent.glob("*.yaml")))
        raise ParamsError(
            f"{override}: conf/{file.parent.name}/{file.name} does not exist.", f"Choose one of {names}."
        )


def _value(override: str) -> Any:
    """Return the value of ``KEY=VALUE``, for a parameter that exists."""
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise ParamsError(
            f"{override!r} is no parameter.", "Write KEY=VALUE, for example train.learning_rate=5e-5."
        )
    check_key(key)
    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError:
        raise ParamsError(
            f"{override}: the value is not valid YAML.", "Quote it for the shell: 'KEY=[a, b]'."
        ) from None


def _is_known(key: str) -> bool:
    """Return True for a parameter, and for a key in a parameter whose value is a mapping.

    For example ``model.config.hidden_size``.
    """
    keys = list(known_keys(optional=True))
    return key in keys or any(key.startswith(f"{leaf}.") for leaf in _leaves(keys))


def _leaves(keys: Sequence[str]) -> list[str]:
    """Return the keys of values, in their order: without the keys of sections."""
    leaves = []
    for key in keys:
        is_section = any(name.startswith(f"{key}.") for name in keys)
        if not is_section:
            leaves.append(key)
    return leaves


def _composed(root: Path, groups: Sequence[str]) -> dict[str, Any]:
    """Return the parameters that Hydra composes, by dotted key."""
    # On a copy and in another process: Hydra writes into the file, and imports plugins of the project.
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, PARAMS.name)
        target.write_bytes((root / PARAMS).read_bytes())
        command = [sys.executable, "-P", compose.__file__, json.dumps(list(groups)), str(target)]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if done.returncode:
            printed = done.stderr
            if done.returncode == compose.REFUSED:
                printed = done.stdout
            message = f"{' '.join(groups)}:"
            for line in printed.strip().splitlines()[-12:]:
                message += f"\n  {line}"
            raise ParamsError(message)
        composed = read_yaml(target)
    return {key: get_value(composed, key) for key in _leaves(list(known_keys()))}
