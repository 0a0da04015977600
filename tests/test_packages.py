"""Packages import each other downwards: a walk through a nightly run enters each of them once."""

from graphlib import TopologicalSorter

import pytest

from tests.conftest import ROOT
from tuneline.core.stage.code import imports


def package_of(name: str) -> str:
    """Return the package of a module or of a name in it: the first two parts, ``tuneline.rows``."""
    return ".".join(name.split(".")[:2])


@pytest.mark.parametrize("top", ["flows", "tuneline"])
def test_packages_import_each_other_without_a_circle(top):
    used: dict[str, set[str]] = {}
    for path in (ROOT / top).rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        package = package_of(module)
        names = {package_of(name) for name in imports(path) if name.startswith(f"{top}.")}
        used.setdefault(package, set()).update(
            name for name in names - {package} if (ROOT / name.replace(".", "/")).exists()
        )
    assert len(used) > 5
    TopologicalSorter(used).prepare()  # raises CycleError, which names the circle
