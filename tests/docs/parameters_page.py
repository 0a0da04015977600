"""Writes the tables of docs/parameters.md from the fields: ``python -m tests.docs.parameters_page``.

Each key has its default and the first sentence of its docstring.
"""

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from tests.conftest import ROOT
from tuneline.core.params import Params

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


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
