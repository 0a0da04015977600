"""Composes ``params.yaml`` in its working directory, as ``dvc exp run -S ...`` does.

Flows start it as a script.

A process of its own, without secrets in its environment, for two reasons: Hydra imports the package
``hydra_plugins`` of the ref that is run, and interpolations (``${oc.env:NAME}``) put values of the
environment into a file that is committed. It imports no other module of this project, because ``sys.path``
must not contain the checkout before the overrides are checked.

The argument is a JSON list of overrides. Exit code ``REFUSED``: the last lines of the output say what is
wrong with the overrides.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

REFUSED = 3
"""Exit code if the overrides are invalid."""
_HARMLESS = re.compile(r"(?!-)[\w./@:+=,%-]*")
"""Strings that a shell takes as one word that is not an option, wherever in a command they are."""


class RefusedOverrideError(Exception):
    """Overrides that a run does not accept."""


def main() -> None:
    """Compose, or print what is wrong with the overrides."""
    from dvc.exceptions import DvcException
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    overrides = json.loads(sys.argv[1])
    try:
        compose(Path.cwd(), overrides)
    except (RefusedOverrideError, DvcException, HydraException, OmegaConfBaseException) as error:
        sys.stdout.write(f"{error}\n")
        sys.exit(REFUSED)


def compose(root: Path, overrides: Sequence[str]) -> None:
    """Write the parameters: composed by Hydra if DVC's settings enable that, else by changing values.

    Raises:
        RefusedOverrideError: An override reaches out of the parameters of the ref, or a value does not fit
            into a command of ``dvc.yaml``.
        HydraException, OmegaConfBaseException, DvcException: Hydra rejects an override.
    """
    from dvc.config import Config
    from dvc.utils.hydra import apply_overrides, compose_and_dump

    hydra = Config(dvc_dir=str(root / ".dvc")).get("hydra", {})
    folder = root / hydra.get("config_dir", "conf")
    params = root / "params.yaml"

    check_overrides(overrides, folder)
    if hydra.get("enabled", False):
        name = hydra.get("config_name", "config")
        plugins = root / hydra.get("plugins_path", "")
        compose_and_dump(params, str(folder), None, name, str(plugins), list(overrides))
    else:
        apply_overrides(params, list(overrides))
    check_templates(root, params)


def check_overrides(overrides: Sequence[str], folder: Path) -> None:
    """Refuse overrides that read something else than the parameters of the ref.

    Something else is the environment, or another YAML file.
    """
    from dvc.utils.hydra import to_hydra_overrides

    # Hydra accepts interpolations, and would resolve them.
    for override in overrides:
        if "${" in override:
            raise RefusedOverrideError(
                f"{override}: interpolations, ${{...}}, are not allowed in overrides. Write the value itself."
            )
    for parsed in to_hydra_overrides(list(overrides)):
        keys = [parsed.key_or_group, parsed.package or ""]
        sections = [re.split(r"[./]", key)[0] for key in keys]
        if "hydra" in sections:
            raise RefusedOverrideError(
                f"{parsed.input_line}: Hydra's own settings are not parameters. Remove this override."
            )
        if not (folder / parsed.key_or_group).is_dir():
            continue
        for name in _strings(parsed.value()):
            if _leaves_folder(name):
                raise RefusedOverrideError(
                    f"{parsed.input_line}: this is not a file of {folder.name}/{parsed.key_or_group}/. Give"
                    " the name of one."
                )


def check_templates(root: Path, file: Path) -> None:
    """Refuse values that are not one harmless word where ``dvc.yaml`` has a parameter in a command or path.

    A shell runs the command.
    """
    from dvc.parsing.interpolate import get_matches, normalize_key
    from ruamel.yaml import YAML

    pipeline = root / "dvc.yaml"
    params = YAML(typ="safe", pure=True).load(file)
    text = ""
    if pipeline.exists():
        text = pipeline.read_text(encoding="utf-8")
    for match in get_matches(text):
        key = normalize_key(match["inner"].strip())
        for value in _strings(_find(params, key)):
            if not _HARMLESS.fullmatch(value) or _leaves_folder(value):
                where = f"dvc.yaml has ${{{key}}} in a command or path"
                raise RefusedOverrideError(
                    f"{key}: {value!r} is not allowed, because {where}. Use letters, digits and ./@:+=,%-"
                )


def _leaves_folder(path: str) -> bool:
    """Return True if a path leads out of the folder that it is relative to."""
    return ".." in PurePosixPath(path).parts


def _find(params: Any, key: str) -> Any:
    """Return the value of a dotted key; ``None`` if there is none, as for a name of a loop over stages."""
    for part in key.split("."):
        if isinstance(params, list) and part.isdigit() and int(part) < len(params):
            params = params[int(part)]
        elif isinstance(params, dict):
            params = params.get(part)
        else:
            return None
    return params


def _strings(value: Any) -> Iterator[str]:
    """Yield the strings in a value, keys of mappings included: DVC makes options of them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key in value:
            yield from _strings(key)
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


if __name__ == "__main__":
    main()
