"""A second version that answers a share of the rows silently, when nothing else is to do.

Where the versions disagree, people can look into the file of disagreements.
"""

import asyncio
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tuneline.model.encoding import EncodingError
from tuneline.program.prediction import Prediction
from tuneline.program.text_classifier import TextClassifier
from tuneline.runtime.errors import StageError
from tuneline.service.answering import AnsweredRows
from tuneline.service.engine import Engine
from tuneline.service.jobs import RowJob

MOST_KEPT = 10_000
"""Rows that a file of disagreements has at most."""


@dataclass
class Shadow:
    """The second version.

    Attributes:
        model: The model.
        share: Fraction of the rows that it answers.
        engine: What computes them, after everything else.
        count: Gets ``same``, ``other`` or ``skipped`` for each row.
        disagreements: File for rows that it answers in another way; ``None``: they are only counted.
    """

    model: TextClassifier
    share: float
    engine: Engine
    count: Callable[[str], None]
    disagreements: Path | None
    _due: float = 0.0
    _kept: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Count what the file has already.

        Raises:
            StageError: The model predicts numbers, of which two are hardly ever the same.
        """
        if not self.model.task.has_classes:
            problem = "--shadow: it compares labels, and this model predicts numbers."
            raise StageError(problem, "Leave it out.")
        if self.disagreements is not None and self.disagreements.exists():
            with self.disagreements.open(encoding="utf-8") as file:
                self._kept = sum(1 for _ in file)

    async def look(self, answered: AnsweredRows) -> None:
        """Predict a share of rows that were answered, and compare."""
        chosen = []
        for row in range(len(answered.texts)):
            self._due += self.share
            if self._due >= 1:
                self._due -= 1
                chosen.append(row)
        if not chosen:
            return
        if self.model.text_columns != answered.model.text_columns:  # since the other one was replaced
            self._count_all("skipped", chosen)
            return

        texts = [answered.texts[row] for row in chosen]
        try:
            encoded = [self.model.encode([row]) for row in texts]
        except EncodingError:
            self._count_all("skipped", chosen)
            return
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        in_a_minute = time.monotonic() + 60
        job = RowJob(self.model, encoded, lambda: loop.call_soon_threadsafe(done.set), in_a_minute)
        if not self.engine.queue.add_idle(job):
            self._count_all("skipped", chosen)
            return
        await done.wait()
        if job.failures:
            self._count_all("skipped", chosen)
            return
        shadowed = self.model.predictions(self.model.task.scores(job.logits), np.zeros(len(chosen), bool))
        self._compare(answered, chosen, shadowed)

    def _compare(self, answered: AnsweredRows, rows: Sequence[int], shadowed: Sequence[Prediction]) -> None:
        lines = []
        for row, other in zip(rows, shadowed, strict=True):
            prediction = answered.predictions[row]
            is_same = (prediction.label, prediction.labels) == (other.label, other.labels)
            self.count("same" if is_same else "other")
            if not is_same:
                texts = dict(zip(answered.model.text_columns, answered.texts[row], strict=True))
                answers = {
                    "answer": prediction.label or prediction.labels,
                    "version": prediction.version,
                    "shadow_answer": other.label or other.labels,
                    "shadow_version": other.version,
                }
                lines.append(json.dumps({**texts, **answers}, ensure_ascii=False))
        kept = lines[: max(MOST_KEPT - self._kept, 0)]
        if self.disagreements is not None and kept:
            self._kept += len(kept)
            _append(self.disagreements, kept)

    def _count_all(self, outcome: str, rows: Sequence[int]) -> None:
        for _ in rows:
            self.count(outcome)


def _append(file: Path, lines: Sequence[str]) -> None:
    """Append lines to a file that only its owner may read: it has texts."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "a", encoding="utf-8") as opened:
        opened.write("".join(f"{line}\n" for line in lines))
