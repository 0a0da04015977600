"""Predictions for many files by few processes: each loads the model once, and a file that ends its process stops no other file."""

import json
import re
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from flows.runs.pipeline import OnLine, Pipeline
from flows.runs.processes import ProgramError
from flows.scoring.inbox import Incoming
from tuneline.prediction_jobs import BEGINS, ENDS, MODULE, JobOptions

FILES = 200
"""Files of one process: a command line has room for the longest paths of so many."""
OnEnd = Callable[[Incoming, Path, ProgramError | None], None]
"""Called with each file that ends, its predictions, and the error that it ended with."""
_BEGINS, _ENDS = (re.compile(line.format(number="([0-9]+)", status="([0-9]+)")) for line in (BEGINS, ENDS))


def predict_files(pipeline: Pipeline, files: Sequence[Incoming], options: JobOptions, on_end: OnEnd) -> None:
    """Predict files, one after the other; the next one is predicted while ``on_end`` handles the one before.

    Args:
        pipeline: Runs the processes.
        files: The files.
        options: What they have in common.
        on_end: Called with each file that ends.

    Raises:
        ProgramError: A process ended, but not by a file: the model cannot be used, for example.
    """
    command = [sys.executable, "-P", "-m", MODULE, json.dumps(asdict(options))]
    waiting = list(files)
    while waiting:
        part = waiting[:FILES]
        output = _Output(part, Path(options.folder), pipeline.on_line, on_end)
        try:
            pipeline.programs.run([*command, *(str(incoming.path) for incoming in part)], "The prediction", output.read)
        except ProgramError as error:
            if not output.begun:
                raise
            output.end(error.code)  # by the file that was being predicted: it may need more memory than there is
        del waiting[: output.ended]


class _Output:
    """What a process prints about its files.

    Attributes:
        ended: Number of files that ended.
        begun: True if the next one has begun.
    """

    def __init__(self, files: Sequence[Incoming], folder: Path, on_line: OnLine, on_end: OnEnd) -> None:
        self.ended = 0
        self.begun = False
        self._files, self._folder = files, folder
        self._on_line, self._on_end = on_line, on_end
        self._lines: deque[str] = deque(maxlen=20)

    def read(self, line: str) -> None:
        """Read a line."""
        if not self.begun and _BEGINS.fullmatch(line):
            self.begun = True
            self._lines.clear()
            self._on_line(f"Scoring {self._files[self.ended].name}")
        elif self.begun and (match := _ENDS.fullmatch(line)) and int(match[1]) == self.ended + 1:
            self.end(int(match[2]))
        else:
            self._lines.append(line)
            self._on_line(line)

    def end(self, code: int) -> None:
        """End the file that has begun."""
        incoming = self._files[self.ended]
        error = ProgramError(f"Scoring {incoming.name}", code, self._lines) if code else None
        self.ended += 1
        self.begun = False
        self._on_end(incoming, self._folder / f"{self.ended}.parquet", error)
