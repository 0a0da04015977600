"""The code that a stage runs: its page in ``stages/``, the user's functions, and the engine, this package.

A project has the engine in its environment, where DVC does not look. So ``engine.yaml`` has a hash for each
stage, of the code that the stage reaches in ``tuneline/`` by imports, and ``dvc.yaml`` lists it in
``params:``. It is of the syntax tree: comments, docstrings and layout change nothing. A checkout of the
engine has no ``engine.yaml``, because its ``dvc.yaml`` lists the folders of ``tuneline/``.
"""

import ast
import hashlib
import importlib.metadata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import tuneline
from tuneline.core.params.loading import read_yaml
from tuneline.core.paths import ENGINE, PIPELINE
from tuneline.core.runtime.errors import ParamsError, StageError
from tuneline.core.stage.records import file_hash

INSTALLED = Path(tuneline.__file__).parents[1]
"""Folder that has the package ``tuneline``."""
CHANGES_NO_OUT = {
    Path("stages/__init__.py"): "settings of the process: garbage collection, a cache",
    Path("tuneline/__init__.py"): "settings of the process: telemetry, the name of the user",
    Path("tuneline/core/params"): "``params:`` lists the values, and a reworded description changes none",
    Path("tuneline/core/paths.py"): "``dvc.yaml`` lists the paths of outs and dependencies",
    Path("tuneline/core/runtime"): "how a process prints, locks, ends and puts a file in its place",
}
"""What no stage depends on, and why an edit there changes no out."""


def require_engine(stage: str) -> None:
    """Refuse an engine whose code for a stage is not that of ``engine.yaml``, if there is one.

    DVC would keep outs that this engine does not make, or record outs of this engine as those of another.

    Raises:
        ParamsError: The message has both versions and what to do.
    """
    if not ENGINE.exists():
        return
    recorded = read_yaml(ENGINE)
    if recorded["stages"].get(stage) == engine_hash(stage):
        return
    raise ParamsError(
        f"{ENGINE} is of tuneline {recorded['version']}; installed is {installed_version()}, and what {stage}"
        " runs of it differs.",
        "To install the engine that pyproject.toml names: make setup. To use the installed one, or"
        " after an edit of imports in stages/: tuneline upgrade",
    )


def engine_record(root: Path = Path()) -> dict[str, Any]:
    """Return the content of ``engine.yaml``: version, and a hash for each stage that runs code of it."""
    hashes = {}
    for stage, entry in read_yaml(root / PIPELINE)["stages"].items():
        if _modules(entry, root):
            hashes[stage] = engine_hash(stage, root)
    return {"version": installed_version(), "stages": hashes}


def installed_version() -> str:
    """Return the version of the engine."""
    return importlib.metadata.version("tuneline")


def engine_hash(stage: str, root: Path = Path(), installed: Path = INSTALLED) -> str:
    """Return one SHA-256 over the code that a stage reaches in ``tuneline/``, with the templates beside it.

    Raises:
        StageError: ``dvc.yaml`` has no such stage.
    """
    stages = read_yaml(root / PIPELINE)["stages"]
    if stage not in stages:
        raise StageError(f"{PIPELINE} has no stage {stage!r}.", f"It has {', '.join(stages)}.")

    files: set[Path] = set()
    for module in _modules(stages[stage], root):
        files |= imported_files(module, installed, ("tuneline",))
    lines = []
    for file in sorted(files):
        if not changes_no_out(file):
            lines.append(f"{_meaning_hash(installed / file)}  {file.as_posix()}\n")
    for folder in sorted({file.parent / "templates" for file in files}):
        for template in sorted((installed / folder).glob("*")):
            lines.append(f"{file_hash(template)}  {(folder / template.name).as_posix()}\n")
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def changes_no_out(path: Path) -> bool:
    """Return True for a file of the engine that no stage depends on."""
    return not CHANGES_NO_OUT.keys().isdisjoint({path, *path.parents})


def code_hash(stage: str, root: Path = Path(), folders: Sequence[str] = ("project", "stages")) -> str:
    """Return one SHA-256 over the code that a stage runs: the engine's, and the files that are listed.

    Args:
        stage: Name of the stage in ``dvc.yaml``.
        root: Folder of the project.
        folders: Where the files are that count, of those in the ``deps`` of the stage.

    Raises:
        StageError: ``dvc.yaml`` lists a file of code that does not exist.
    """
    lines = [f"{engine_hash(stage, root)}  tuneline\n"]
    for dep in sorted(read_yaml(root / PIPELINE)["stages"][stage]["deps"]):
        if Path(dep).parts[0] not in folders:
            continue
        if not (root / dep).exists():
            raise StageError(f"dvc.yaml lists {dep} in deps, but it does not exist.", "Correct the path.")
        files = [root / dep]
        if files[0].is_dir():
            files = sorted(files[0].rglob("*.py"))
        lines += [f"{file_hash(file)}  {file.relative_to(root).as_posix()}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _modules(entry: Mapping[str, Any], root: Path) -> list[str]:
    """Return the modules of the engine that the command of a stage starts, or that the user's code imports.

    That is its page, with the files of ``stages/`` and ``project/`` that the page imports. Of several
    commands, the last one makes the outs.
    """
    command = entry["cmd"] if isinstance(entry["cmd"], str) else entry["cmd"][-1]
    modules = []
    for word in command.split():
        if word.startswith("tuneline."):
            modules.append(word)
            continue
        for file in imported_files(word, root, ("project", "stages")):
            modules += [name for name in imports(root / file) if name.startswith("tuneline.")]
    return modules


# --- imports


def imported_files(
    module: str, root: Path, packages: tuple[str, ...], not_followed: tuple[Path, ...] = ()
) -> set[Path]:
    """Return every file of packages that a module may load, with itself and the ``__init__`` of parents.

    Imports inside functions are included, because they run when the function is called; those of the files
    ``not_followed`` are not. The paths are relative to ``root``.
    """
    files: set[Path] = set()
    waiting = [module]
    while waiting:
        for path in _files_of(waiting.pop(), root):
            if path in files:
                continue
            files.add(path)
            if path not in not_followed:
                waiting += [name for name in imports(root / path) if name.split(".")[0] in packages]
    return files


@cache
def _files_of(name: str, root: Path) -> list[Path]:
    """Return the files that Python reads for a module, or for a module with a name in it."""
    parts = name.split(".")
    candidates: list[Path] = []
    for depth in range(1, len(parts) + 1):
        path = Path(*parts[:depth])
        candidates += [path / "__init__.py", path.with_suffix(".py")]
    return [candidate for candidate in candidates if (root / candidate).is_file()]


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Return the names that a file imports: ``a.b`` for ``from a import b``.

    What is imported for types alone is left out: it is not read when the program runs.

    Raises:
        StageError: An import is relative.
    """
    tree = _tree(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            raise StageError(
                f"{path}:{node.lineno} is a relative import, so the code of its stage is not known.",
                "Write it with the whole name: from stages.NAME import ...",
            )
    return tuple(_imported_names(tree))


def _imported_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from _imported_names(child)


# --- what code means


@cache
def _meaning_hash(path: Path) -> str:
    """Return the SHA-256 of a Python file without comments, docstrings and layout."""
    return hashlib.sha256(repr(_meaning(_tree(path))).encode()).hexdigest()


def _meaning(node: Any) -> Any:
    """Return a node of a syntax tree as a list that every version of Python gives for the same code.

    ``ast.dump`` shows fields that are empty in some versions only.
    """
    if isinstance(node, ast.AST):
        fields: list[Any] = [type(node).__name__]
        for name, value in ast.iter_fields(node):
            if value is not None and value != []:
                fields.append([name, _meaning(value)])
        return fields
    if isinstance(node, list):
        return [_meaning(child) for child in node if not _is_docstring(child)]
    return node


def _is_docstring(node: Any) -> bool:
    """Return True for a text that is a statement: Python does nothing with it."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
