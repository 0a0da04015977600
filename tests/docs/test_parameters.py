"""docs/parameters.md, the generated reference of all parameters."""

import re
from pathlib import Path

import pytest

from tests.params import DEFAULTS
from tuneline.cli.explain.page import COMMAND, markdown_page
from tuneline.cli.explain.reference import read_reference, walk
from tuneline.params.loading import read_yaml


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs/parameters.md").read_text(encoding="utf-8")


def changed_by_the_user(root: Path) -> set[str]:
    """Return the keys of conf/base.yaml whose defaults are not those of the product, and the stages that are not its own."""
    base = read_yaml(root / "conf/base.yaml")
    same_as_tests = [(section, key) for section in base if section != "seed" for key in base[section] if key not in ("config", "behaviour")]
    defaults = {f"{section}.{key}" for section, key in same_as_tests if base[section][key] != DEFAULTS[section].get(key)}
    return defaults | {stage for stage in read_yaml(root / "dvc.yaml")["stages"] if not (root / "stages" / stage).is_dir()}


def test_parameter_page_is_current(page, root):
    if changed := changed_by_the_user(root):
        pytest.skip(f"the page describes the product; this project has changed {sorted(changed)}. A page for it: {COMMAND}")
    assert page == markdown_page(read_reference(root)), f"docs/parameters.md is outdated. Run: {COMMAND}"


def test_parameter_page_has_every_parameter(page, root):
    keys = set(re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE))
    values = [parameter.key for parameter in walk(read_reference(root)) if not parameter.children]
    missing = [key for key in values if key not in keys and re.sub(r"\..+\.", ".*.", key) not in keys]
    assert not missing


def test_every_table_row_of_the_parameter_page_has_four_cells(page):
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
