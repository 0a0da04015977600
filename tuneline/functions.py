"""Import functions of the user from the folder ``project/``, such as a loss or a metric."""

import contextlib
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tuneline.errors import ParamsError
from tuneline.params.functions import FunctionName, check_listed
from tuneline.params.loading import read_yaml
from tuneline.paths import PIPELINE, PROJECT

OPTIONS = {"train.loss": " or a value in train.loss_options"}
"""Where the values of other arguments come from, by parameter; a metric has none."""


@dataclass(frozen=True)
class ProjectFunction:
    """A function of the user: ``function(logits, labels)``.

    Attributes:
        parameter: Parameter that names it.
        name: File and function.
        target: The function itself.
        options: Values of its other arguments.
        files: Files of ``project/`` that were imported with it, relative to the root: a change of any may change its results.
    """

    parameter: str
    name: FunctionName
    target: Callable[..., Any]
    options: Mapping[str, Any]
    files: tuple[Path, ...]

    def __call__(self, logits: Any, labels: Any) -> Any:
        """Call the function.

        Raises:
            ParamsError: It raised an error.
        """
        try:
            return self.target(logits, labels, **self.options)
        except Exception as error:  # whatever the user's code raises
            called = f"for logits {tuple(logits.shape)} and labels {tuple(labels.shape)}"
            where = _line_in_project(error)
            raise self.error(f"fails {called}{where}: {type(error).__name__}: {error}", "Correct the function.") from error

    def error(self, problem: str, hint: str) -> ParamsError:
        """Return an error about the function that names parameter, file and function."""
        return ParamsError(f"{self.parameter}: {self.name} {problem}", hint)


def load_function(parameter: str, name: FunctionName, options: Mapping[str, Any] | None = None) -> ProjectFunction:
    """Import a function that takes logits, labels, and options by name.

    Args:
        parameter: Parameter that names it.
        name: Its name.
        options: Values of its other arguments.

    Raises:
        ParamsError: It cannot be imported or called like this, or needs a file that is no dependency of its stage.
    """
    module, files = _import(parameter, name)
    target = getattr(module, name.function, None)
    if not callable(target):
        raise ParamsError(f"{parameter}: {name.file} has no function {name.function!r}.", "Correct the name, or write the function.")
    function = ProjectFunction(parameter, name, target, options or {}, files)
    _check_signature(function)
    if PIPELINE.exists():
        check_listed(parameter, files, read_yaml(PIPELINE))
    return function


def _check_signature(function: ProjectFunction) -> None:
    name, options = function.name.function, function.options
    try:
        inspect.signature(function.target).bind("logits", "labels", **options)
    except TypeError as error:
        arguments = ", ".join(["logits", "labels", *(f"{key}={value!r}" for key, value in options.items())])
        raise function.error(
            f"cannot be called as {name}({arguments}): {error}.",
            f"Define it as `def {name}(logits, labels)`. Other arguments need a default{OPTIONS.get(function.parameter, '')}.",
        ) from None


def _import(parameter: str, name: FunctionName) -> tuple[ModuleType, tuple[Path, ...]]:
    """Import a file as a module of the package ``project`` of the current folder; return it with all files that this has read."""
    root = Path.cwd()
    with _fresh_imports_from(root):
        try:
            module = importlib.import_module(name.module)
        except Exception as error:  # whatever the user's code raises
            problem = f"cannot be imported{_line_in_project(error)}: {type(error).__name__}: {error}"
            raise ParamsError(f"{parameter}: {name.file} {problem}", "Correct the file.") from error
        files = [getattr(other, "__file__", None) for key, other in sys.modules.items() if _is_of_project(key)]
    if module.__file__ != str(root / name.file):
        raise ParamsError(
            f"{parameter}: Python imports {name.module} from {module.__file__}, not from this repository.",
            f"Add an empty file {PROJECT}/__init__.py: an installed package of the same name is found before a folder without it.",
        )
    return module, tuple(sorted(Path(file).relative_to(root) for file in files if file))


def _line_in_project(error: Exception) -> str:
    """Return where in the user's files an error was raised, as words to append; empty if it was elsewhere."""
    folder = str(PROJECT.absolute())
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(folder)]
    return f" ({Path(frames[-1].filename).relative_to(Path.cwd())}, line {frames[-1].lineno})" if frames else ""


def _is_of_project(module: str) -> bool:
    return module.partition(".")[0] == PROJECT.name


@contextlib.contextmanager
def _fresh_imports_from(root: Path) -> Iterator[None]:
    """Import ``project`` afresh from a folder: a notebook may have imported an earlier version of its files.

    No bytecode is written: Python would take it for current after an edit in the same second that keeps the size of the file.
    """
    for name in [name for name in sys.modules if _is_of_project(name)]:
        del sys.modules[name]
    importlib.invalidate_caches()
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        sys.path.remove(str(root))
        sys.dont_write_bytecode = before
