"""Benchmarks use the code of stages and command line; they are run by hand, so only these tests see that they
still start."""

import subprocess
import symtable
import sys
from functools import cache

import pytest

from tests.conftest import ROOT
from tuneline.core.stage.code import imports

PACKAGES = ("benchmarks.", "flows.", "stages.", "tests.", "tuneline.")
FILES = sorted((ROOT / "benchmarks").rglob("*.py"))
TINY_MODEL = ("--layers", "1", "--hidden", "64")
SMALLEST = {
    "inference": (*TINY_MODEL, "--scale", "0.05"),
    "predict": (*TINY_MODEL, "--rows", "200", "--rounds", "1"),
    "scale": ("--rows", "1000", "--stages", "download", "base", "tokenize", "train", "--engines", "local"),
    "tokenize": ("--rows", "1000", "--rounds", "1"),
    "training": (*TINY_MODEL, "--rows", "400", "--rounds", "1"),
}
"""Options of a quick run. The others need data sets, or hours."""


@cache
def names(module: str) -> set[str]:
    """Return the names that a module of this project defines or imports, without running it."""
    path = ROOT / module.replace(".", "/")
    source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")
    table = symtable.symtable(source, module, "exec")
    submodules = {file.stem for file in path.glob("*.py")} | {
        file.parent.name for file in path.glob("*/__init__.py")
    }
    return submodules | {
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_what_benchmarks_import_exists(file):
    own = [name.rpartition(".") for name in imports(file) if name.startswith(PACKAGES)]
    assert [f"{module}.{name}" for module, _, name in own if name not in names(module)] == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SMALLEST)
def test_benchmark_runs(name):
    command = [sys.executable, "-m", f"benchmarks.{name}", *SMALLEST[name]]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "│" in done.stdout, "a table of results"
