"""A name means one thing: no two classes or functions have the same, no alias has that of a class, and no
constant has two values."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT

ENTRY_POINTS = ("main", "command")
"""Functions that a program starts by the name of their module: every stage and command has one."""


def definitions(kind: type) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the public names of a kind of statement at the top of a module, except for options of the command
    line."""
    for package in ("tuneline", "stages", "flows"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for statement in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(statement, kind):
                    yield Path(path).relative_to(ROOT).as_posix(), statement


def test_classes_have_names_of_their_own():
    names = Counter(
        statement.name for _, statement in definitions(ast.ClassDef) if not statement.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_functions_have_names_of_their_own():
    """A command, flow or task is named for who calls it, with a decorator; any other public function has one
    meaning."""
    names = Counter(
        statement.name
        for _, statement in definitions(ast.FunctionDef)
        if not statement.name.startswith("_")
        and not is_registered(statement)
        and statement.name not in ENTRY_POINTS
    )
    assert [name for name, count in names.items() if count > 1] == []


def is_registered(function: ast.FunctionDef) -> bool:
    """Say if a decorator makes a command of the command line, a flow or a task of the function."""
    decorators = " ".join(ast.unparse(decorator) for decorator in function.decorator_list)
    return any(word in decorators for word in ("command", "callback", "flow", "task"))


SEVERAL_MODULES = "several_modules"
"""Folder of the tests of a behaviour to which several modules of a package contribute."""
WHOLE_PRODUCT = ("benchmarks", "docs", "faults", "pipeline")
"""Folders of tests that belong to no package."""


def test_test_files_are_found_under_the_name_of_their_module():
    """``test_MODULE.py``, ``test_MODULE_BEHAVIOUR.py``, or any name in a folder of the module's name."""
    lost = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        folder = path.parent.relative_to(ROOT / "tests")
        if folder == Path() or folder.parts[0] in WHOLE_PRODUCT or folder.name == SEVERAL_MODULES:
            continue
        subject = path.stem.removeprefix("test_")
        modules = {module.stem.strip("_") for module in (ROOT / folder).glob("*.py")}
        modules |= {package.parent.name for package in (ROOT / folder).glob("*/__init__.py")}
        modules.add(folder.name)  # __init__.py
        is_named = any(subject == module or subject.startswith(f"{module}_") for module in modules)
        has_folder = (ROOT / folder).with_suffix(".py").exists()
        if not is_named and not has_folder:
            lost.append(path.relative_to(ROOT).as_posix())
    assert lost == [], f"name them after a module, or move them to a folder {SEVERAL_MODULES}"
