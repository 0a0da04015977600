"""The defaults of the parameters with what a test changes: ``params.yaml`` is the demonstration, whose model
and rows take a minute."""

import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.conftest import ROOT
from tuneline.core.params import Params
from tuneline.core.params.loading import default_values, parse_params

OF_THE_SAMPLE = {
    "data": {"text_columns": ["subject", "body"], "label_column": "queue"},
    "model": {"config": {"model_type": "bert"}},
}
"""What every task sets."""


def complete(sections: dict[str, Any]) -> dict[str, Any]:
    """Return a whole parameter file: the defaults, with the values of ``sections``; ``model.config`` is
    replaced as a whole."""
    return _merged(_merged(default_values(), OF_THE_SAMPLE), sections)


def _merged(defaults: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = deepcopy(defaults)
    for key, value in changes.items():
        whole = key == "config" or not isinstance(value, dict) or not isinstance(defaults.get(key), dict)
        merged[key] = value if whole else _merged(defaults[key], value)
    return merged


def params(**sections: Any) -> Params:
    """Return the parameters of the tests with the values of ``sections``."""
    return parse_params(complete(sections))


def change_params(folder: Path, changes: dict[str, Any]) -> None:
    """Change values in ``params.yaml`` of a project by dotted key, and keep its comments."""
    yaml = YAML()
    yaml.preserve_quotes = True
    values = yaml.load(folder / "params.yaml")
    for key, value in changes.items():
        *sections, last = key.split(".")
        section = values
        for name in sections:
            section = section[name]
        section[last] = value
    yaml.dump(values, folder / "params.yaml")


def write_params(folder: Path, **sections: Any) -> None:
    """Write ``params.yaml`` with the parameters of the tests and the values of ``sections``, and the code
    that a stage records with them."""
    yaml = YAML(typ="safe", pure=True)
    yaml.width = 1000  # one line per section, as in params.yaml
    yaml.dump(complete(sections), folder / "params.yaml")
    copy_code(folder)


def copy_code(folder: Path) -> None:
    """Copy ``dvc.yaml``, the pages and the user's functions, where a test has not written its own."""
    for path in [ROOT / "dvc.yaml", *(ROOT / "stages").glob("*.py"), *(ROOT / "project").glob("*.py")]:
        copy = folder / path.relative_to(ROOT)
        if not copy.exists():
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, copy)
