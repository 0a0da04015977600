"""Processes that start others by name: the table in docs/architecture.md is complete, and lists nothing else.

An import is found by ``tests/test_dvc_yaml.py``. A module that is started as a program of its own is a string
in the source: the scan finds the names of modules of this project, the words after ``-m``, and the programs
that commands begin with.
"""

import ast
import re
from collections.abc import Iterator

from tests.conftest import ROOT

PACKAGES = ("flows", "stages", "tuneline")
PROGRAMS = ("dvc", "git", "prefect", "python", "uvicorn")
"""Programs that are not of this project, and ``python``, which gets its code as text."""
TABLE = "## Processes that start others"
MODULE = re.compile(rf"({'|'.join(PACKAGES)})(\.\w+)+")

Start = tuple[str, str]
"""Path of the module that starts a process, and the name of what it starts."""


def listed() -> set[Start]:
    """Return what the table lists: each module of the first column with each name of the second."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    section = text.partition(TABLE)[2].partition("\n## ")[0]
    starts = set()
    for line in section.splitlines():
        if not line.startswith("| `"):
            continue
        starters, names = line.split("|")[1:3]
        for starter in re.findall("`(.+?)`", starters):
            starts |= {(starter, name) for name in re.findall("`(.+?)`", names)}
    return starts


def in_source() -> set[Start]:
    """Return what the modules of the project start."""
    starts = set()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            starter = path.relative_to(ROOT).as_posix()
            starts |= {(starter, name) for name in started_by(path.read_text(encoding="utf-8"), starter)}
    return starts


def started_by(source: str, starter: str) -> Iterator[str]:
    """Yield the names of what a module starts: modules of this project, paths of scripts, and programs."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and is_module(node.value):
            yield node.value
        elif isinstance(node, ast.List | ast.Tuple):
            yield from programs_of(node.elts, first=0)
            yield from scripts_of(node, starter, tree)
        elif isinstance(node, ast.Call):
            yield from programs_of(node.args, first=1)  # after the folder, as in run(root, "git", ...)


def is_module(value: object) -> bool:
    """Return True for the dotted name of a module of this project that ``python -m`` could run."""
    if not isinstance(value, str) or not MODULE.fullmatch(value):
        return False
    path = ROOT.joinpath(*value.split("."))
    return path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()


def programs_of(command: list[ast.expr], first: int) -> Iterator[str]:
    """Yield the program that the words of a command start: the word after ``-m``, else the first one."""
    words = [word.value if isinstance(word, ast.Constant) else None for word in command[first:]]
    if "-m" in words:
        words = words[words.index("-m") + 1 :]
    if words and words[0] in PROGRAMS:
        yield str(words[0])
    elif len(words) > 1 and words[0] == "tuneline" and words[1] is not None:
        yield "tuneline"


def scripts_of(command: ast.List | ast.Tuple, starter: str, tree: ast.Module) -> Iterator[str]:
    """Yield the paths of modules that a command starts by ``__file__``: ``module.__file__``, or its own."""
    for node in ast.walk(command):
        if isinstance(node, ast.Name) and node.id == "__file__":
            yield starter
        if isinstance(node, ast.Attribute) and node.attr == "__file__":
            yield imported_from(ast.unparse(node.value), tree).replace(".", "/") + ".py"


def imported_from(name: str, tree: ast.Module) -> str:
    """Return the full name of a module that ``from package import name`` imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            return f"{node.module}.{name}"
    return name


def test_table_of_started_processes_is_complete():
    assert in_source() - listed() == set(), f"add a row to {TABLE!r} in docs/architecture.md, with the reason"


def test_table_lists_only_processes_that_are_started():
    assert listed() - in_source() == set(), f"remove the row from {TABLE!r} in docs/architecture.md"


def test_every_module_that_uses_subprocess_is_in_the_table():
    """Whatever it starts: the scan of names would not see a name that is put together at run time."""
    starters = {starter for starter, _ in listed()}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if re.search(r"subprocess\.(run|Popen)\(", path.read_text(encoding="utf-8")):
                assert path.relative_to(ROOT).as_posix() in starters


def test_scan_finds_each_way_to_name_a_process():
    source = """
from tuneline.core.runtime import processes

by_module = [sys.executable, "-P", "-m", "tuneline.serve.batch", model]
by_function = start([executable, "-m", "tuneline.operations.server.worker"], env)
by_folder = run(root, "git", "status")
by_script = [sys.executable, processes.__file__]
by_name = ["dvc", *arguments]
by_command = ["tuneline", "predict", rows]
no_command = ["tuneline", *tags]
"""
    assert set(started_by(source, "flows/example.py")) == {
        "tuneline.serve.batch",
        "tuneline.operations.server.worker",
        "git",
        "tuneline/core/runtime/processes.py",
        "dvc",
        "tuneline",
    }
