"""Writes the defaults of the fields to docs/parameters.md and conf/base.yaml: ``make parameters``.

On the page, each key has its default and the first sentence of its docstring.
"""

import json
from collections.abc import Iterator
from typing import Any

from omegaconf import OmegaConf
from pydantic import BaseModel

from tests.conftest import ROOT
from tuneline.core.params import Params
from tuneline.core.params.loading import default_values

BASE = ROOT / "conf/base.yaml"
PAGE = ROOT / "docs/parameters.md"
MARK = "<!-- `make parameters` writes the rest from tuneline/core/params/ -->\n"


def first_sentence(docstring: str | None) -> str:
    text = " ".join((docstring or "").split()).replace("``", "`").replace("|", "\\|")
    return text.partition(". ")[0].rstrip(".")


def shown(value: Any) -> str:
    if isinstance(value, BaseModel):
        return shown(value.model_dump(mode="json"))
    return json.dumps(value, ensure_ascii=False, default=str).replace("|", "\\|")


def rows(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield a line for each key, and for the keys of sections in it."""
    for name, field in section.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel) and len(inner.model_fields) > 4:
            yield from rows(inner, f"{key}.")
            continue
        default = "" if field.is_required() else f"`{shown(field.get_default())}`"
        yield f"| `{key}` | {default} | {first_sentence(field.description)} |"


def written() -> str:
    """Return the page as it should be."""
    before, mark, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    lines = "\n".join(rows(Params))
    return f"{before}{mark}\n| key | default | meaning |\n| --- | --- | --- |\n{lines}\n"


def base() -> str:
    """Return ``conf/base.yaml`` as it should be, in the form in which DVC writes ``params.yaml``."""
    comment = (
        "# Defaults of the engine, from which the tasks in conf/task/ start; a task has values of yours.\n"
        "# `make parameters` in Tuneline's repository writes this file.\n"
    )
    return comment + OmegaConf.to_yaml(OmegaConf.create(default_values()))


if __name__ == "__main__":
    BASE.write_text(base(), encoding="utf-8")
    PAGE.write_text(written(), encoding="utf-8")
