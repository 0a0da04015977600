"""What is installed is what pyproject.toml asks for, pinned, from wherever the reader's own registry is."""

import re
import tomllib

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement

from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = (ROOT / "requirements.txt").read_text(encoding="utf-8")
PINNED = [Requirement(line) for line in LOCK.splitlines() if line and not line.startswith((" ", "#"))]
DIRECT = [Requirement(line) for line in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("wanted", DIRECT, ids=lambda wanted: wanted.name)
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_every_direct_dependency_is_pinned_to_one_admitted_version(wanted, python):
    environment = {**default_environment(), "python_version": python, "python_full_version": f"{python}.9", "sys_platform": "linux"}
    pins = [pin for pin in PINNED if normal(pin.name) == normal(wanted.name) and (pin.marker is None or pin.marker.evaluate(environment))]
    assert len(pins) == 1
    version = str(pins[0].specifier).removeprefix("==")
    assert wanted.specifier.contains(version)


def test_the_lock_names_no_registry_and_no_build_of_torch():
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links|file:", LOCK)
    assert "+cpu" not in LOCK
    assert not {"nvidia-cublas", "cuda-toolkit", "triton"} & {pin.name for pin in PINNED}


def test_every_pin_is_exact():
    assert all(str(pin.specifier).startswith("==") for pin in PINNED)
