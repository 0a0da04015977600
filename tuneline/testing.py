"""Tests of a project on rows sampled from its own data: all stages run on them, in a copy of the repository.

::

    run = SampledRun.of(Path(), tmp_path)
    assert set(run.labels("train")) == {"billing", "delivery"}
    assert run.model.predict_one("where is my parcel").label in run.task.names

Data, columns, checks, and functions in ``project/`` are the project's. The model is a tiny one that is
trained from scratch, so that a run takes less than a minute, and needs no checkpoint.
"""

import contextlib
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from tuneline.checks.results import Checks
from tuneline.core.params import Params
from tuneline.core.params.loading import load_params
from tuneline.core.params.params_file import changed, write
from tuneline.core.params.section import FunctionName
from tuneline.core.paths import BASE_SOURCE, CHECKS, EVALUATION, ONNX, PARAMS, PREDICTIONS, RAW, SOURCE
from tuneline.core.repository.dvc import local_settings
from tuneline.core.repository.git import run_git
from tuneline.core.repository.programs import ProgramError, Programs
from tuneline.core.runtime.errors import StageError
from tuneline.core.stage.records import Metrics
from tuneline.core.stage.tables import LABELS, SplitReader
from tuneline.judge.metrics.functions import load_metric, named_labels
from tuneline.judge.metrics.predictions import Predictions, read_predictions
from tuneline.model.tasks import Task
from tuneline.model.tasks.columns import array_of, read_task
from tuneline.model.tasks.task import Floats
from tuneline.serve.text_classifier import TextClassifier

CHECKS_OF_MANY_ROWS = (
    "rows", "length_outliers", "absent_classes", "rare_classes", "class_balance", "revealing_words",
    "unknown_rate", "word_pieces", "truncation_rate", "label_drift", "length_drift", "vocabulary_overlap",
    "promoted_rows", "promoted_labels", "promoted_lengths", "promoted_vocabulary",
)  # fmt: skip
"""Data checks that good data can fail where there are few rows, or a tokenizer that was trained on few."""
_BEGINS = re.compile(r"(Running stage|Verifying data sources in stage:) '(.+?)'")
"""What DVC prints before a stage, and before data that only a ``.dvc`` file names."""
_FAILED = re.compile(r"ERROR: failed to reproduce '(.+?)'")


def copy_repository(root: Path, folder: Path) -> None:
    """Copy the files that git does not ignore into a new git repository."""
    versioned = run_git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in versioned:
        if name and (root / name).is_file():  # else it is deleted, or a submodule
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name, follow_symlinks=False)
    run_git(folder, "init", "--quiet", "--initial-branch", "main")


def sampled(folder: Path, rows: int) -> dict[str, Any]:
    """Return the parameters, by dotted key, that differ in a run on few rows with a tiny model."""
    params = load_params(folder / PARAMS)
    launch = params.train.launch
    if (folder / "conf/accelerate/auto.yaml").exists():
        launch = "auto"
    severity = dict(params.validate_.severity)
    for check in CHECKS_OF_MANY_ROWS:
        if params.validate_.severity_of(check) == "error":
            severity[check] = "warning"
    config = {
        "model_type": "bert",
        "hidden_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "max_position_embeddings": params.tokenize.max_length,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    return {
        "data.max_rows": rows,
        "model.checkpoint": None,
        "model.revision": None,
        "model.config": config,
        "model.head": None,
        "validate.severity": severity,
        "train.launch": launch,
        "train.epochs": 8,
        "train.max_steps": None,
        "train.learning_rate": 2.0e-3,
        "train.contrastive": 0.0,
        "train.lora": None,
        "train.mixed_precision": None,
        "run.engine": "local",
        "compare.int8.required": False,
    }


@dataclass(frozen=True)
class SampledRun:
    """A finished run of the stages on sampled rows.

    Attributes:
        folder: The copy of the repository, with the outs of its stages.
        stages: The stages that ran, in their order.
        params: The parameters of the run.
    """

    folder: Path
    stages: tuple[str, ...]
    params: Params

    @classmethod
    def of(
        cls,
        root: Path,
        folder: Path,
        *stages: str,
        rows: int = 300,
        changes: Mapping[str, Any] | None = None,
    ) -> Self:
        """Run the stages of a project in a copy.

        Args:
            root: The project.
            folder: Folder of the copy, in which nothing is yet.
            stages: The last stages to run, with all that they need. Default: every stage of ``dvc.yaml``.
                Name them if there is one that acts outside the repository, such as a deployment.
            rows: Most rows of each split.
            changes: Other values of parameters, by dotted key.

        Raises:
            ParamsError: ``params.yaml`` is invalid.
            StageError: A stage failed; the message has its name and what it printed.
        """
        copy_repository(root, folder)
        shutil.copytree(root / SOURCE, folder / SOURCE, dirs_exist_ok=True)  # which git ignores
        for weights in (folder / BASE_SOURCE).glob("*.dvc"):  # DVC would want them, and no stage does
            weights.unlink()
        (folder / "dvc.lock").unlink(missing_ok=True)
        differing = sampled(folder, rows) | dict(changes or {})
        write(folder / PARAMS, changed(folder / PARAMS, differing))
        with local_settings(folder) as settings:  # sampled outs are of no use in a shared cache
            settings["cache"] = {"dir": str(folder.resolve() / ".dvc" / "cache")}
        run_git(folder, "add", "--all")
        run_git(folder, "-c", "commit.gpgsign=false", "commit", "--quiet", "--message", "Run on sampled rows")

        printed: list[str] = []
        programs = Programs(folder, "sampled", {"ACCELERATE_USE_CPU": "true"})
        try:
            programs.dvc("repro", *stages, what="dvc repro", on_line=printed.append)
        except ProgramError:
            raise _failure(printed) from None
        ran = tuple(name for what, name in _BEGINS.findall("\n".join(printed)) if what.startswith("Running"))
        return cls(folder, ran, load_params(folder / PARAMS))

    @property
    def checks(self) -> Checks:
        """The results of the data checks."""
        return Checks.read(self.folder / CHECKS / "checks.json")

    @property
    def metrics(self) -> Mapping[str, float]:
        """All metrics of the trained model on the reported split, with the functions of ``project/``."""
        return Metrics.read(self.folder / EVALUATION).values

    @property
    def predictions(self) -> Predictions:
        """Labels of the reported split, and logits and predictions of the trained model."""
        return read_predictions(self.folder / PREDICTIONS, with_logits=True)

    @property
    def model(self) -> TextClassifier:
        """The exported model, in fp32."""
        return TextClassifier.load(self.folder / ONNX, "fp32")

    @property
    def task(self) -> Task:
        """The task, with the names of its classes."""
        return read_task(self._split("train").schema)

    def texts(self, split: str) -> Any:
        """Return the texts of a split as the functions in ``project/`` and ``model.predict`` take them.

        They are a pandas frame with a column for each text column.
        """
        return self._split(split).read(self.params.data.text_columns).to_pandas()

    def labels(self, split: str) -> Any:
        """Return the labels of a split as the functions in ``project/`` get them, in pandas.

        They are a series of class names or of numbers; with several labels per row, a frame of bool.
        """
        column = self._split(split).read([LABELS])[LABELS]
        return named_labels(self.task, array_of(self.task, column))

    def losses(self) -> Floats:
        """Return the loss of each row of the reported split by ``train.loss``, without class weights."""
        import torch

        from tuneline.training.losses import Loss
        from tuneline.training.optimization import load_loss

        predictions = self.predictions
        with contextlib.chdir(self.folder):
            function = load_loss(self.params.train, self.task)
        loss = Loss(self.task, function=function)
        losses = loss.per_example(torch.tensor(predictions.logits), torch.tensor(predictions.labels))
        return np.asarray(losses.double())

    def metric(self, name: str) -> float:
        """Return what a metric in ``project/``, ``project/FILE.py:FUNCTION``, is on the reported split."""
        predictions = self.predictions
        with contextlib.chdir(self.folder):
            own = load_metric("evaluate.metrics", FunctionName.parse("metrics", name), self.task)
        return own.compute(predictions.logits, predictions.labels)

    def _split(self, split: str) -> SplitReader:
        return SplitReader.open(self.folder / RAW, split, "download")


def _failure(printed: list[str]) -> StageError:
    """Return the error about a run that failed: its stage, and what this one printed."""
    failed = ""
    first = 0
    for number, line in enumerate(printed):
        begun = _BEGINS.match(line)
        if begun is not None:
            failed = begun[2]
            first = number + 1
        error = _FAILED.match(line)
        if error is not None and error[1] != failed:  # DVC could not begin it
            failed = error[1]
            first = number

    what = f"Stage {failed!r}" if failed else "dvc repro"
    hint = None
    if failed.endswith(".dvc"):
        hint = f"If the data is not here, in the project: `dvc pull {failed}`."
    return StageError(f"{what} failed on the sampled rows. It printed:\n" + "\n".join(printed[first:]), hint)
