"""docs/parameters.md, the generated reference of all parameters."""

import re
from pathlib import Path

import pytest

from tuneline.cli.explain.page import COMMAND, markdown_page
from tuneline.cli.explain.reference import read_reference, walk


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs/parameters.md").read_text(encoding="utf-8")


def test_parameter_page_is_current(page, root):
    assert page == markdown_page(read_reference(root)), f"docs/parameters.md is outdated. Run: {COMMAND}"


def test_parameter_page_has_every_parameter(page, root):
    keys = set(re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE))
    values = [parameter.key for parameter in walk(read_reference(root)) if not parameter.children]
    missing = [key for key in values if key not in keys and re.sub(r"\..+\.", ".*.", key) not in keys]
    assert not missing


def test_every_table_row_of_the_parameter_page_has_four_cells(page):
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
