"""YAML 1.2 files, read as DVC reads them, with errors that name file and line."""

from pathlib import Path
from typing import Any

from tuneline.core.runtime.errors import ParamsError


def read_yaml(path: Path) -> Any:
    """Read YAML 1.2, as DVC does: ``2e-5`` is a number.

    Raises:
        ParamsError: The file is missing or is not valid YAML.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        return YAML(typ="safe", pure=True).load(path)
    except FileNotFoundError:
        raise ParamsError(f"{path} is missing.", "Run this in the root of the project.") from None
    except MarkedYAMLError as error:
        marker = _conflict_line(path)
        if marker is not None:
            raise ParamsError(
                f"{path}, line {marker}: a merge left a conflict.", "Keep one of the two, and git add it."
            ) from None
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise ParamsError(
            f"{path}, line {line}: invalid YAML: {error.problem}.", "Correct that line."
        ) from None
    # ValueError: not UTF-8, or a date without quotes that no calendar has
    except (YAMLError, ValueError) as error:
        raise ParamsError(f"{path}: invalid YAML: {error}") from None
    except RecursionError:
        raise ParamsError(f"{path}: invalid YAML: lists or mappings are nested too deep.") from None


def _conflict_line(path: Path) -> int | None:
    """Return the number of the first line with which git marks a conflict; ``None`` if there is none."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    for number, line in enumerate(lines, start=1):
        if line.startswith("<<<<<<< "):
            return number
    return None
