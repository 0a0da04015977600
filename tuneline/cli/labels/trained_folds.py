"""Out-of-fold logits of the pipeline's own model: the stages ``train`` and ``evaluate`` run once for each fold, in a project of its own.

The logits of a finished fold are kept, so a command that was interrupted trains only the folds that are missing, and the fold that was
interrupted resumes from its checkpoint. Another seed, model, training, code or data begins again.
"""

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.cli.labels.review import Folds, LabelledRows, Rows
from tuneline.core.errors import DataError, StageError
from tuneline.core.files import file_hash, replace_file
from tuneline.core.locks import BusyError, locked
from tuneline.core.paths import (
    BASE,
    BASE_RECORD,
    CLASSIFIER,
    PARAMS,
    PREDICTIONS,
    PROJECT,
    RAW,
    REPORTS,
    SPLITS,
    TOKENIZED,
    TOKENIZER,
    split_file,
)
from tuneline.core.processes import PARENT, ending, start
from tuneline.core.provenance import ROOT, split_hash, stage_provenance
from tuneline.core.stage import require
from tuneline.core.tables import LABELS, SplitReader, read_table, write_table
from tuneline.core.terminal import say
from tuneline.project.params_file import Changes, changed

FOLDS = REPORTS / "labels" / "folds"
LINKED = (Path("conf"), PROJECT, BASE, TOKENIZER)
"""What the stages read and no fold changes."""
CHANGES: Changes = {"evaluate.split": "test", "evaluate.metrics": None, "evaluate.behaviour": None, "run.trackers": []}
"""Parameters of a fold's project: the rows that are held out are its test split."""


def trained_logits(rows: LabelledRows, folds: Folds) -> NDArray[np.float32]:
    """Return the logits of each row from a model that was trained without it, shape ``(rows, outputs)``.

    Raises:
        StageError: The data is not tokenized, or a stage fails.
    """
    home = FOLDS / _key(folds)
    with _locked():
        _remove_others(home)
        for fold in range(folds.count):
            if not _result(home, fold).exists():
                _predict_fold(home, rows, folds, fold)
    logits = np.empty((len(rows), rows.schema.outputs), np.float32)
    for fold in range(folds.count):
        logits[folds.held_out(fold)] = np.load(_result(home, fold))
    return logits


def _key(folds: Folds) -> str:
    """Return a hash of all that determines the logits: parameters, code, data, base weights and folds."""
    base = file_hash(require(BASE_RECORD, made_by="base"))
    data = [split_hash(SplitReader.open(TOKENIZED, split, made_by="tokenize").paths) for split in SPLITS]
    parts = [stage_provenance("train", ()).model_dump_json(), base, *data, str(folds.count)]
    return hashlib.sha256("\n".join(parts).encode() + folds.positions.tobytes()).hexdigest()[:16]


@contextmanager
def _locked() -> Iterator[None]:
    """Let only one process at a time train folds here."""
    FOLDS.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        try:
            held.enter_context(locked(FOLDS, wait=0, required=False))
        except BusyError:
            raise StageError("Another `tuneline labels review` trains folds in this project.", "Wait for its end.") from None
        yield


def _remove_others(home: Path) -> None:
    """Remove the folds of other parameters, code or data."""
    for folder in FOLDS.glob("*"):
        if folder != home:
            shutil.rmtree(folder, ignore_errors=True)


def _result(home: Path, fold: int) -> Path:
    return home / f"fold-{fold + 1}.npy"


def _predict_fold(home: Path, rows: LabelledRows, folds: Folds, fold: int) -> None:
    """Train and predict a fold, and keep its logits."""
    title, started = f"Fold {fold + 1} of {folds.count}", time.monotonic()
    train, validation = folds.others(fold)
    held_out = folds.held_out(fold)
    say(f"{title}: {len(train):,} rows to train on, {len(validation):,} to validate, {len(held_out):,} to predict.")
    project = home / f"fold-{fold + 1}"
    try:
        _write_project(project, rows, {"train": train, "validation": validation, "test": held_out})
        if not (project / CLASSIFIER).exists():
            _run("stages.train.launch", project)
        _run("stages.evaluate", project)
    except KeyboardInterrupt:
        say(f"{title} is incomplete: the same command resumes it. The folds before it are kept in {home}.", error=True)
        raise
    predicted = read_table(project / PREDICTIONS, ["logits"])["logits"].combine_chunks()
    with replace_file(_result(home, fold)) as partial, partial.open("wb") as file:
        np.save(file, predicted.flatten().to_numpy().reshape(len(held_out), -1))
    shutil.rmtree(project)
    say(f"{title} took {time.monotonic() - started:,.0f} s.")


def _write_project(project: Path, rows: LabelledRows, splits: Mapping[str, Rows]) -> None:
    """Write the data and parameters that the stages read; an earlier start of the same fold wrote the same."""
    for path in LINKED:
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not (project / path).is_symlink():
            (project / path).symlink_to(path.absolute())
    (project / RAW).mkdir(parents=True, exist_ok=True)
    (project / PARAMS).write_text(changed(PARAMS, CHANGES), encoding="utf-8")
    for folder in (RAW, TOKENIZED):
        table = _read_all(folder, rows)
        for split, chosen in splits.items():
            write_table(table.take(pa.array(chosen)), split_file(project / folder, split))


def _read_all(folder: Path, rows: LabelledRows) -> pa.Table:
    """Read the labelled rows of all splits, in the order of ``rows``."""
    tables = []
    for index, split in enumerate(SPLITS):
        reader = SplitReader.open(folder, split, made_by="download" if folder == RAW else "tokenize")
        table, own = reader.read(), rows.splits == index
        numbers = rows.numbers[own]
        if len(table) <= numbers.max(initial=-1) or not np.array_equal(table[LABELS].to_numpy()[numbers], rows.labels[own]):
            raise DataError(f"{reader.name} does not have the rows and labels of {RAW}.", "Run `dvc repro tokenize`.")
        tables.append(table.take(pa.array(numbers)))
    return pa.concat_tables(tables)


def _run(module: str, project: Path) -> None:
    """Run a stage in a fold's project. An interruption of this process interrupts the stage, which saves its state first."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path, PARENT: str(os.getpid())}
    with ending(start([sys.executable, "-m", module], cwd=project, env=environment), seconds=None) as stage:
        status = stage.wait()
    if status == os.EX_TEMPFAIL:  # the training was interrupted, and can be resumed
        raise KeyboardInterrupt
    if status:
        hint = "Its messages are above. Correct the cause, and run the same command again."
        raise StageError(f"{module} ended with exit status {status} in {project}.", hint)
