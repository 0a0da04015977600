"""``KEY=VALUE`` on a command line: other values in the text of ``params.yaml``, all of them checked, with comments and layout kept."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from tuneline.core.errors import ParamsError
from tuneline.core.launch import check_launch
from tuneline.core.paths import PARAMS, PIPELINE
from tuneline.core.yaml_files import read_yaml
from tuneline.metrics.table import METRIC_TABLE
from tuneline.params.loading import known_keys, parse_params, suggestion
from tuneline.params.section import FunctionName, check_functions
from tuneline.project import compose
from tuneline.project.params_file import changed, get_value

ALTERNATIVES = (("train.epochs", "train.max_steps"), ("train.warmup_ratio", "train.warmup_steps"))
"""Pairs of parameters of which one is null."""


def parse_overrides(root: Path, overrides: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return new values by dotted key, and the overrides that choose a file of a folder in ``conf/``, such as ``task=mrpc``.

    Of a pair of alternatives, the one that is not given becomes null.

    Raises:
        ParamsError: An override is not ``KEY=VALUE``, or there is no such parameter.
    """
    values: dict[str, Any] = {}
    groups = []
    for override in overrides:
        key, _, text = override.partition("=")
        if "." not in key and (root / "conf" / key).is_dir():
            _check_group(override, root / "conf" / key / f"{text}.yaml")
            groups.append(override)
        else:
            values[key] = _value(override)
    return with_alternatives(values), groups


def with_alternatives(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return new values, in which the other one of a pair of alternatives is null."""
    completed = dict(values)
    for pair in ALTERNATIVES:
        given = [key for key in pair if values.get(key) is not None]
        if len(given) == 1:
            completed |= {key: None for key in pair if key not in values}
    return completed


def check_key(key: str) -> None:
    """Check that there is such a parameter, else a ``ParamsError`` names the nearest one."""
    if not _is_known(key):
        raise ParamsError(f"{key}: unknown key{suggestion(key, list(known_keys(optional=True)))}")


def params_with(root: Path, values: Mapping[str, Any], groups: Sequence[str] = ()) -> str:
    """Return the text of ``params.yaml`` with other values, composed by Hydra if there are ``groups``.

    Raises:
        ParamsError: A value, or what it names, is invalid. Nothing was changed.
    """
    path = root / PARAMS
    required = {**(_composed(root, groups) if groups else {}), **values}
    text = changed(path, required)
    params = parse_params(YAML(typ="safe", pure=True).load(text), path, given=required)
    pipeline = root / PIPELINE
    check_functions(
        params.functions, root, read_yaml(pipeline) if params.functions and pipeline.exists() else None
    )
    check_launch(params.train.launch, params.train.optimizer)
    _check_metric(params.train.metric)
    return text


def _check_metric(name: str) -> None:
    known = [metric.name for metric in METRIC_TABLE.values() if metric.validated]
    if name not in known and not FunctionName.matches(name):
        raise ParamsError(
            f"train.metric: {name!r} is not a metric.",
            f"Choose one of {', '.join(known)}, or write project/FILE.py:FUNCTION.",
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
    """Return True for a parameter, and for a key in one whose value is a mapping, such as ``model.config.hidden_size``."""
    keys = set(known_keys(optional=True))
    leaves = {one for one in keys if not any(other.startswith(f"{one}.") for other in keys)}
    return key in keys or any(key.startswith(f"{leaf}.") for leaf in leaves)


def _composed(root: Path, groups: Sequence[str]) -> dict[str, Any]:
    """Return the parameters that Hydra composes, by dotted key."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, PARAMS.name)
        target.write_bytes((root / PARAMS).read_bytes())
        command = [sys.executable, "-P", compose.__file__, json.dumps([*groups]), str(target)]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if done.returncode:
            printed = (
                done.stdout.strip() if done.returncode == compose.REFUSED else done.stderr.strip()
            ).splitlines()
            raise ParamsError("\n  ".join([f"{' '.join(groups)}:", *printed[-12:]]))
        composed = read_yaml(target)
    keys = list(known_keys())
    leaves = [key for key in keys if not any(other.startswith(f"{key}.") for other in keys)]
    return {key: get_value(composed, key) for key in leaves}
