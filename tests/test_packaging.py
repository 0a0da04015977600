"""requirements.txt pins what pyproject.toml requires, for any registry."""

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement

from tests.conftest import ROOT
from tuneline.core.stage.code import imports
from tuneline.operations.project import template_files
from tuneline.testing import copy_repository

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = (ROOT / "requirements.txt").read_text(encoding="utf-8")
PINS = re.findall(r"^(\w[^\\\n]*)((?: \\\n    --hash=sha256:[0-9a-f]{64})*)$", LOCK, re.MULTILINE)
"""Each requirement, and its hashes."""
PINNED = [Requirement(pin) for pin, _ in PINS]
DIRECT = [Requirement(line) for line in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("required", DIRECT, ids=lambda required: required.name)
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_direct_dependency_is_pinned_to_one_allowed_version(required, python):
    environment = {
        **default_environment(),
        "python_version": python,
        "python_full_version": f"{python}.9",
        "sys_platform": "linux",
    }
    pins = [
        pin
        for pin in PINNED
        if normal(pin.name) == normal(required.name)
        and (pin.marker is None or pin.marker.evaluate(environment))
    ]
    assert len(pins) == 1
    version = str(pins[0].specifier).removeprefix("==")
    assert required.specifier.contains(version)


def test_requirements_name_no_registry_and_no_torch_build():
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links|file:", LOCK)
    assert "+cpu" not in LOCK
    assert not {"nvidia-cublas", "cuda-toolkit", "triton"} & {pin.name for pin in PINNED}


def test_every_requirement_but_torch_has_hashes():
    """Each build of torch has another hash, and the build is the user's choice."""
    assert {Requirement(pin).name for pin, hashes in PINS if not hashes} == {"torch"}


OWN = {"flows", "stages", "tuneline", "project", "tests", "benchmarks", "toy"}


@pytest.mark.parametrize(
    ("packages", "extras"),
    [
        (("flows", "stages", "tuneline", "project"), ("ray",)),
        (("tests", "benchmarks"), ("dev", "ray", "s3")),
    ],
)
def test_every_imported_distribution_is_a_direct_dependency(packages, extras):
    """One that only another package requires disappears, or changes, with that package."""
    listed = PROJECT["dependencies"] + [
        entry for extra in extras for entry in PROJECT["optional-dependencies"][extra]
    ]
    declared = {normal(Requirement(entry).name) for entry in listed}
    installed = packages_distributions()
    undeclared = {}
    for path in (path for package in packages for path in (ROOT / package).rglob("*.py")):
        for module in {name.partition(".")[0] for name in imports(path)} - OWN - sys.stdlib_module_names:
            if not declared & {normal(name) for name in installed.get(module, [module])}:
                undeclared.setdefault(module, str(path.relative_to(ROOT)))
    assert not undeclared, f"not in pyproject.toml: {undeclared}"


def test_wheel_has_every_file_of_the_engine_and_of_a_project(tmp_path):
    """Stages and commands read templates beside their modules, which setuptools leaves out unless
    package-data lists them."""
    copy_repository(ROOT, tmp_path / "copy")
    command = "from setuptools import build_meta; build_meta.build_wheel('wheel')"
    subprocess.run([sys.executable, "-c", command], cwd=tmp_path / "copy", capture_output=True, check=True)
    (file,) = (tmp_path / "copy/wheel").glob("*.whl")
    wheel = zipfile.ZipFile(file)

    files = [path for path in (ROOT / "tuneline").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    expected = {path.relative_to(ROOT).as_posix(): path for path in files}
    for name, path in template_files().items():
        expected[f"tuneline/template/{name.as_posix()}"] = path
    present = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert present == set(expected)
    for name, path in expected.items():
        assert wheel.read(name) == path.read_bytes(), name
        is_program = bool(wheel.getinfo(name).external_attr >> 16 & 0o100)
        assert is_program == bool(path.stat().st_mode & 0o100), name


HEAVY_MODULES = (
    "tuneline.cli",
    "tuneline.checks.",
    "tuneline.judge.evaluation.classifier",
    "tuneline.model.linear.pooled",
    "tuneline.model.linear.torch",
    "tuneline.training.",
)
LIGHT_MODULES = ("tuneline.checks.analysis", "tuneline.checks.page", "tuneline.checks.results")
"""Of the modules above, those that scheduled runs and pages import."""


def modules(package: str) -> list[str]:
    """Return every module of a package, without ``tuneline.cli``, whose functions import what they need, and
    those that train or check."""
    paths = [path.relative_to(ROOT) for path in (ROOT / package).rglob("*.py")]
    names = (".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths)
    return sorted(
        name for name in names if name.startswith(LIGHT_MODULES) or not name.startswith(HEAVY_MODULES)
    )


@pytest.mark.parametrize(
    ("package", "excluded"),
    [
        ("tuneline", {"torch", "transformers", "datasets", "great_expectations", "stages", "flows"}),
        (
            "flows",
            {
                "torch",
                "transformers",
                "datasets",
                "great_expectations",
                "stages",
                "pandas",
                "scipy",
                "sklearn",
            },
        ),
    ],
)
def test_import_of_core_and_flows_loads_no_heavy_library(package, excluded):
    """Scheduled runs and predictions import them, and torch and transformers take seconds and hundreds of
    megabytes."""
    script = (
        f"import sys, importlib\nfor name in {modules(package)}:"
        " importlib.import_module(name)\nprint(*sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not excluded & set(done.stdout.split())
