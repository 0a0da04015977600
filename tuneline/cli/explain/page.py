"""``docs/parameters.md``: the reference of all parameters in Markdown."""

import re
from collections.abc import Iterable, Iterator

from tuneline.cli.explain.reference import REQUIRED, VARIES, Parameter, common_reruns, nested

COMMAND = "tuneline explain --markdown > docs/parameters.md"
"""Writes the page."""

_HEAD = f"""\
# Parameters

<!-- Generated. Do not edit; run: {COMMAND} -->

Every key of `params.yaml`, generated from the types in `tuneline/params/`, the defaults in `conf/base.yaml` and the stages in `dvc.yaml`.
After a change of one of them, write this page again with `{COMMAND}`; a test compares them.

```bash
tuneline explain                              # the sections
tuneline explain train                        # the parameters of a section
tuneline explain train.warmup_ratio           # one parameter
dvc exp run -S train.warmup_ratio=0.06        # another value
```

A task (`conf/task/NAME.yaml`) may set other values than these defaults, and `params.yaml` has the values that are used. A required key has
no default: every task sets it. `*` stands for all sections in the table above whose default has that key.
"""
_CODE = re.compile(r"(`[^`]*`)")
_SPECIAL = re.compile(r"([\\*_<>\[\]|])")


def markdown_page(sections: Iterable[Parameter]) -> str:
    """Return the whole page."""
    return "\n".join([_HEAD, *("\n".join(_section(section)) for section in sections)])


def _section(section: Parameter) -> Iterator[str]:
    reruns = common_reruns(section)
    yield f"## {section.key}\n"
    if section.children:
        yield f"{escape(section.meaning)}\n"
    yield f"A change reruns {reruns}.\n"
    if others := [f"- {code(child.key)}: {child.reruns}." for child in section.children if child.reruns != reruns]:
        yield from ["Except for:\n", *others, ""]
    yield from _table(section.children or [section])
    if inner := nested(section):
        yield from ["\nThe keys of these sections:\n", *_table(inner)]
    yield ""


def _table(parameters: Iterable[Parameter]) -> Iterator[str]:
    yield "| key | type | default | meaning |"
    yield "| --- | --- | --- | --- |"
    for parameter in parameters:
        default = parameter.default if parameter.default in (REQUIRED, VARIES) else code(parameter.default)
        yield f"| {code(parameter.key)} | {escape(parameter.type)} | {default} | {escape(parameter.meaning)} |"


def code(text: str) -> str:
    """Return a code span, which may be in a table: there, ``|`` would end the cell."""
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}".replace("|", r"\|")


def escape(text: str) -> str:
    """Return text with code in backticks, without any other Markdown: no emphasis, link, HTML, or end of a table's cell."""
    parts = _CODE.split(text)
    return "".join(part.replace("|", r"\|") if _CODE.fullmatch(part) else _SPECIAL.sub(r"\\\1", part) for part in parts)
