"""Functions of the user in the folder ``project/``: how they are imported, and what metrics and rows say."""

import contextlib
import importlib
import inspect
import math
import sys
import traceback
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuneline.core.params.loading import read_yaml
from tuneline.core.params.section import FunctionName, check_listed, missing_function
from tuneline.core.paths import PIPELINE, PROJECT
from tuneline.core.runtime.errors import ParamsError
from tuneline.judge.metrics.table import METRIC_TABLE
from tuneline.model.tasks import Task
from tuneline.model.tasks.task import UNLABELLED, ClassIds, Labels, Logits


@dataclass(frozen=True)
class ProjectFunction:
    """A function of the user: ``function(logits, labels)`` or ``function(texts, labels)``.

    A change of any of the ``files`` of ``project/`` that were imported with it may change its results.
    """

    parameter: str
    name: FunctionName
    target: Callable[..., Any]
    files: tuple[Path, ...]

    def __call__(self, outputs: Any, labels: Any) -> Any:
        """Call the function. Its errors pass as they are: their traceback names the line."""
        return self.target(outputs, labels)

    @property
    def greater_is_better(self) -> bool:
        """False for a cost, whose function says so.

        Raises:
            ParamsError: It is neither True nor False.
        """
        value = getattr(self.target, "greater_is_better", True)
        if not isinstance(value, bool):
            raise self.error(f"has greater_is_better = {value!r}.", "Set it to True or False.")
        return value

    def error(self, problem: str, hint: str) -> ParamsError:
        """Return an error about the function that names parameter, file and function."""
        return ParamsError(f"{self.parameter}: {self.name} {problem}", hint)


def load_function(parameter: str, name: FunctionName, first: str = "logits") -> ProjectFunction:
    """Import a function of two arguments by name: of logits, or what is ``first``, and labels.

    A function that needs a file that is not a dependency of its stage is refused.
    """
    module, files = _import(parameter, name)
    target = getattr(module, name.function, None)
    if not callable(target):
        raise missing_function(parameter, name)
    function = ProjectFunction(parameter, name, target, files)
    # A call with other arguments would fail only in the middle of a training.
    try:
        inspect.signature(target).bind(first, "labels")
    except TypeError as error:
        raise function.error(
            f"cannot be called as {name.function}({first}, labels): {error}.",
            f"Define it as `def {name.function}({first}, labels)`. Other arguments need a default.",
        ) from None
    if PIPELINE.exists():
        check_listed(parameter, files, read_yaml(PIPELINE))
    return function


def _import(parameter: str, name: FunctionName) -> tuple[ModuleType, tuple[Path, ...]]:
    """Import a file as a module of the package ``project`` of the current folder.

    Return the module with all files of the package that the import has read.
    """
    root = Path.cwd()
    with _fresh_imports_from(root):
        module = importlib.import_module(name.module)
        files = []
        for key, imported in sys.modules.items():
            if not _is_of_project(key):
                continue
            path = getattr(imported, "__file__", None)
            if path:  # a folder without __init__.py is a module without a file
                files.append(Path(path))
    if module.__file__ != str(root / name.file):
        raise ParamsError(
            f"{parameter}: Python imports {name.module} from {module.__file__}, not from this repository.",
            f"Add an empty file {PROJECT}/__init__.py: an installed package of the same name is found before"
            " a folder without it.",
        )
    return module, tuple(sorted(file.relative_to(root) for file in files))


def _is_of_project(module: str) -> bool:
    return module.partition(".")[0] == PROJECT.name


@contextlib.contextmanager
def _fresh_imports_from(root: Path) -> Iterator[None]:
    """Import ``project`` afresh from a folder: a notebook may have imported an earlier version of its files.

    No bytecode is written: Python would take it for current after an edit in the same second that keeps the
    size of the file.
    """
    for name in list(sys.modules):
        if _is_of_project(name):
            del sys.modules[name]
    importlib.invalidate_caches()
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        sys.path.remove(str(root))
        sys.dont_write_bytecode = before


_ROWS = 6
"""Rows of the data with which a metric is tried."""


@dataclass(frozen=True)
class CustomMetric:
    """A metric of the user, ``def NAME(logits, labels) -> float``.

    The function gets the whole split as NumPy arrays: logits, float32 of shape ``(rows, classes)``, and
    labels, int64 of shape ``(rows,)``. In a regression both are float32 of shape ``(rows,)``. Its attribute
    ``greater_is_better`` is False for a cost.
    """

    function: ProjectFunction
    greater_is_better: bool

    @property
    def name(self) -> str:
        """Key in ``metrics/*.json``: the name of the function."""
        return self.function.name.function

    def compute(self, logits: Logits, labels: NDArray[Any]) -> float:
        """Return the metric of a split, one finite number: logits ``(rows, outputs)``, labels ``(rows,)``."""
        # A regression has one output, and its metrics take numbers.
        outputs = logits[:, 0] if logits.shape[1] == 1 else logits
        value = self.function(outputs.copy(), labels.copy())  # the function may change its arguments
        if np.ndim(value) != 0 or not isinstance(value, int | float | np.number) or not math.isfinite(value):
            problem = f"returns {value!r:.200} for {len(labels)} rows, not one finite number."
            raise self.function.error(problem, "Return a float, also if a class is absent.")
        return float(value)


def load_metric(
    parameter: str, name: FunctionName, labels: Task, taken: Collection[str] = METRIC_TABLE.keys()
) -> CustomMetric:
    """Import a metric that a parameter names, and try it on a few rows; ``taken`` are names of others."""
    function = load_function(parameter, name)
    if function.name.function in (*taken, "rows"):
        raise ParamsError(
            f"{parameter}: {function.name} has the name of a metric of the pipeline.", "Rename the function."
        )
    # A wrong metric fails here, and not after the training.
    metric = CustomMetric(function, function.greater_is_better)
    metric.compute(*_example(labels))
    return metric


def _example(labels: Task) -> tuple[Logits, NDArray[Any]]:
    """Return logits and labels of a few rows, of several classes and with right and wrong predictions."""
    logits = np.random.default_rng(0).normal(size=(_ROWS, labels.outputs)).astype(np.float32)
    return logits, example_labels(labels, _ROWS)


def example_labels(task: Task, rows: int) -> Labels:
    """Return labels of several kinds, with which a function of the user is tried."""
    numbers = np.arange(rows)
    if not task.has_classes:
        return numbers.astype(np.float32)
    if task.one_class:
        return numbers % task.outputs
    # in the pattern of binary numbers, so that sets of several sizes occur
    return np.asarray((numbers[:, None] >> np.arange(task.outputs) % 8) & 1).astype(np.int8)


def chosen_rows(
    function: ProjectFunction, texts: pa.Table, labels: Labels, task: Task, place: str
) -> NDArray[np.bool_]:
    """Return which rows a function of the user chooses, shape ``(rows,)``: a data check, or a slice.

    The function ``def NAME(texts, labels)`` gets all rows as pandas has them: a frame with a column for each
    text column, where a missing text is empty, and the labels of ``named_labels``.

    Args:
        function: The function, loaded with ``texts`` as its first argument.
        texts: The text columns of the rows.
        labels: Labels of shape ``(rows, *label_shape)``.
        task: The task of the labels.
        place: What has these rows, for messages.

    Raises:
        ParamsError: The function fails, or does not return one bool for each row.
    """
    if not len(labels):
        return np.zeros(0, dtype=np.bool_)

    filled = [pc.fill_null(column, "") for column in texts.columns]
    frame = pa.table(filled, texts.column_names).to_pandas()
    try:
        result = function(frame, named_labels(task, labels))
        chosen = np.asarray(result)
    except Exception as error:
        problem = f"fails for {place}: {type(error).__name__}: {error}"
        raise function.error(problem, f"Correct {_failing_line(function, error)}.") from error
    if chosen.dtype != np.bool_ or chosen.shape != labels.shape[:1]:
        raise function.error(
            f"returns {type(result).__name__} of {chosen.dtype}, shape {chosen.shape}, for {place}, which has"
            f" {len(labels):,} rows.",
            "Return one bool for each row, such as texts[COLUMN].str.contains(PATTERN).",
        )
    return chosen


def named_labels(task: Task, labels: Labels) -> Any:
    """Return labels as pandas has them.

    They are a series of class names, missing where a row has no class; of numbers in a regression; with
    several labels per row, a frame with a column of bool for each label.
    """
    import pandas as pd

    if not task.has_classes:
        return pd.Series(labels)
    names = list(task.class_names)
    if task.label_shape:
        return pd.DataFrame(labels == 1, columns=names)
    ids: ClassIds = np.where(task.valid(labels), labels, UNLABELLED)
    return pd.Series(pd.Categorical.from_codes(ids, pd.Index(names)))


def _failing_line(function: ProjectFunction, error: Exception) -> str:
    """Return the file of a function, and its line where an error passed last."""
    place = function.name.file.as_posix()
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename) == Path.cwd() / function.name.file:
            return f"{place}, line {frame.lineno}"
    return place
