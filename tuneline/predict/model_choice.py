"""The model that a command predicts with, and the columns that it reads."""

import functools
from dataclasses import dataclass
from pathlib import Path

from tuneline.onnx.exported_model import ExportedModel
from tuneline.onnx.usage import exported_file
from tuneline.runtime.errors import StageError


@dataclass(frozen=True)
class ModelChoice:
    """The model of a prediction.

    Attributes:
        path: A folder that the stage ``compare`` published, or one ONNX file in it.
        precision: Precision of the model in a folder; ``None`` for fp32.
        threads: Threads per operator; ``None`` for all cores that the process may use.
    """

    path: Path
    precision: str | None = None
    threads: int | None = None

    @functools.lru_cache(maxsize=1)  # noqa: B019 - a worker loads the model once for all its tasks
    def load(self) -> ExportedModel:
        """Load the model, once in a process."""
        return ExportedModel.load(self.path, self.precision, self.threads)

    def file(self) -> Path:
        """Return the ONNX file; a ``StageError`` if it or another file of the model is missing or damaged."""
        return exported_file(self.path, self.precision)


def text_columns(named: list[str] | None, trained: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns that hold the text: named by ``--text``, else as in training.

    Raises:
        StageError: ``--text`` names more or fewer columns than the model takes.
    """
    if not named:
        return trained
    if len(named) != len(trained):
        if len(trained) == 1:
            required = "one text, as in --text body"
        else:
            required = "two texts, as in --text subject --text body"
        raise StageError(
            f"--text: {len(named)} given, but the model takes {required}.",
            f"It was trained on {' and '.join(trained)}.",
        )
    return tuple(named)
