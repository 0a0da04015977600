"""Static analysis of imports: find all files of the project that a module imports, without running it."""

import ast
from functools import cache
from pathlib import Path

CODE = ("tuneline", "stages", "flows")


def imported_files(
    module: str, root: Path, packages: tuple[str, ...], not_followed: tuple[Path, ...] = ()
) -> set[Path]:
    """Return every file of ``packages`` that ``module`` may load, including itself and the ``__init__`` of
    parent packages.

    Imports inside functions are included, because they run when the function is called; those of the files
    ``not_followed`` are not.

    Returns:
        Paths relative to ``root``.
    """
    files: set[Path] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        for path in _files_of(name, root):
            if path in files:
                continue
            files.add(path)
            if path in not_followed:
                continue
            waiting += [used for used in imports(root / path) if used.split(".")[0] in packages]
    return files


@cache
def _files_of(name: str, root: Path) -> list[Path]:
    parts = name.split(".")
    paths = [Path(*parts[:depth]) for depth in range(1, len(parts) + 1)]
    candidates = (
        candidate for path in paths for candidate in (path / "__init__.py", path.with_suffix(".py"))
    )
    return [candidate for candidate in candidates if (root / candidate).is_file()]


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Return the names that a file imports, with the names taken from modules: ``a.b`` for ``from a import
    b``. What is imported for types alone is not read when the program runs."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for_types.update(ast.walk(node))

    names: list[str] = []
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import; this project writes them in full"
            names += (f"{node.module}.{alias.name}" for alias in node.names)
    return tuple(names)


def closure(module: str, root: Path) -> set[Path]:
    """Return the modules that ``module`` may load, without the packages that only contain them.

    The command line imports every command, which reads more only when it is called: it is not followed.
    """
    files = imported_files(module, root, CODE, not_followed=(Path("tuneline/cli/__init__.py"),))
    return {path for path in files if path.name != "__init__.py"}
