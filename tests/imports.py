"""Which modules a module loads, for tests of the structure."""

from pathlib import Path

from tuneline.core.stage.code import imported_files

CODE = ("tuneline", "stages", "flows")


def closure(module: str, root: Path) -> set[Path]:
    """Return the modules that ``module`` may load, without the packages that only contain them.

    The command line imports every command, which reads more only when it is called: it is not followed.
    """
    files = imported_files(module, root, CODE, not_followed=(Path("tuneline/cli/__init__.py"),))
    return {path for path in files if path.name != "__init__.py"}
