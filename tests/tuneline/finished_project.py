"""A project after a run of the pipeline, created in milliseconds: the stages' own code writes tables and
curves of a random model."""

import hashlib
import json
import shutil
import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from ruamel.yaml import YAML

from stages.evaluate import write_plots
from tests.project import GIT_IDENTITY
from tests.records import export_record
from tuneline.core.stage.provenance import BaseSource, PretrainedSource
from tuneline.core.stage.records import file_hash, write_record
from tuneline.core.stage.tables import write_table
from tuneline.judge.evaluation.scoring import (
    baseline_metrics,
    split_metrics,
    spread_metrics,
)
from tuneline.judge.metrics.predictions import Predictions, write_predictions
from tuneline.judge.metrics.table import primary_metric
from tuneline.model.linear.estimators import constant_prediction
from tuneline.model.tasks import Task, task_with_names
from tuneline.model.tasks.columns import column_of, raw_schema

PARAMS = {
    "seed": 42,
    "data.source": "sample",
    "data.path": None,
    "data.name": None,
    "data.task": "classification",
    "data.text_columns": ["subject", "body"],
    "data.label_column": "queue",
    "tokenize.max_length": 128,
    "model.checkpoint": None,
    "train.metric": "accuracy",
    "train.keep": "best",
    "train.learning_rate": 5e-4,
    "evaluate.split": "test",
}
HOSTILE = "<script>alert(1)</script> & \"quoted\" 'text' {{ 7 * 7 }} $x$"


class FinishedProject:
    """A git repository with the files that a run of the pipeline leaves."""

    def __init__(
        self,
        root: Path,
        names: tuple[str, ...] | None = ("billing", "delivery", "damage"),
        rows: int = 120,
        task: Task | None = None,
        **params: Any,
    ) -> None:
        self.root = root
        self.task = task or task_with_names(names)
        self.rows = rows
        self.metric = primary_metric(self.task.kind).name
        self.params = {**PARAMS, "data.task": self.task.kind, "train.metric": self.metric, **params}
        (root / "dvc.yaml").write_text("stages: {}\n")
        (root / ".gitignore").write_text("/data/\n/models/\n/plots/\n/reports/\n/.dvc/cache/\n")
        self.git("init", "--quiet", "--initial-branch", "main")

    def copied_to(self, folder: Path) -> "FinishedProject":
        """Copy the project into an empty folder."""
        shutil.copytree(self.root, folder, symlinks=True, dirs_exist_ok=True)
        copied = deepcopy(self)
        copied.root = folder
        return copied

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.root,
            check=True,
            capture_output=True,
            text=True,
            env={**GIT_IDENTITY, "PATH": "/usr/bin:/bin"},
        )
        return done.stdout.strip()

    def commit(self, message: str = "Run the pipeline") -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "--short", "HEAD")

    def run_pipeline(self, skill: float = 2.0, seed: int = 1) -> "FinishedProject":
        """Write the files of all stages. The higher the ``skill``, the more predictions are correct."""
        self.data()
        self.evaluate(skill, seed)
        self.train(seed)
        self.checks()
        self.slices()
        self.compare()
        self.lock(seed)
        return self

    def data(self, relabelled: int = 0) -> None:
        """Write the raw split. The first rows have another label if they are ``relabelled``."""
        generator = np.random.default_rng(0)
        outputs = self.task.outputs
        if self.task.label_shape:
            self.labels = generator.integers(0, 2, (self.rows, outputs)).astype(np.int8)
            self.labels[::3, -1] = self.labels[::3, 0]  # labels that occur together
        elif self.task.names:
            self.labels = generator.integers(0, outputs, self.rows)
        else:
            self.labels = generator.normal(size=self.rows).astype(np.float32)
        self.labels[:relabelled] = self.other_labels()[:relabelled]
        columns = {
            name: [f"{HOSTILE} {name} {row}" for row in range(self.rows)]
            for name in self.params["data.text_columns"]
        }
        schema = raw_schema(self.params["data.text_columns"], self.task)
        labels = column_of(self.task, self.labels)
        table = pa.table({**columns, "labels": labels, "idx": np.arange(self.rows)}, schema=schema)
        (self.root / "data/raw").mkdir(parents=True, exist_ok=True)
        write_table(table, self.root / "data/raw/test.parquet")
        self.base(None)
        self.write(
            "data/raw/source.json",
            {"source": "sample", "rows": self.rows, "splits": {}, "label_names": self.task.names},
        )

    def other_labels(self) -> Any:
        """Return labels that are all wrong."""
        if self.task.label_shape:
            return 1 - self.labels
        return (self.labels + 1) % self.task.outputs

    def base(self, checkpoint: PretrainedSource | None) -> None:
        """Write the record of the base model."""
        write_record(
            self.root / "models/base/source.json", BaseSource(checkpoint=checkpoint, tokenizer=checkpoint)
        )

    def evaluate(self, skill: float, seed: int) -> None:
        noise = np.random.default_rng(seed).normal(size=(self.rows, self.task.outputs))
        if self.task.label_shape:
            signal = 2.0 * self.labels - 1
        elif self.task.names:
            signal = np.eye(self.task.outputs)[self.labels]
        else:
            signal = self.labels[:, None]
        logits = (skill * signal + noise).astype(np.float32)
        predictions = Predictions.of_logits(self.labels, logits, self.task)
        write_predictions(self.root / "reports/predictions.parquet", predictions)
        (self.root / "plots/evaluation").mkdir(parents=True, exist_ok=True)
        write_plots(self.root / "plots/evaluation", predictions)
        metrics = split_metrics(predictions) | self.baselines(predictions)
        self.write("metrics/evaluate.json", {name: round(value, 6) for name, value in metrics.items()})

    def baselines(self, predictions: Predictions) -> dict[str, float]:
        """Return the metrics of the majority, and of a TF-IDF baseline that is right in three of four
        rows."""
        tfidf = -self.labels
        if self.task.names:
            tfidf = self.labels.copy()
            tfidf[::4] = self.other_labels()[::4]
        constant = constant_prediction(self.task, [self.labels])
        majority = np.broadcast_to(constant, self.labels.shape).astype(self.labels.dtype)
        deciding = primary_metric(self.task.kind)
        return (
            spread_metrics(predictions, deciding, 0)
            | baseline_metrics(predictions, "majority", majority, deciding, 0)
            | baseline_metrics(predictions, "tfidf", tfidf, deciding, 0)
        )

    def train(self, seed: int) -> None:
        (self.root / "plots/training").mkdir(parents=True, exist_ok=True)
        steps = range(10, 600, 10)
        rows = [
            f"{step}\t{2 / (1 + step / 100):.4f}\t{5e-4 * (1 - step / 600):.3e}\t{1 + seed % 3}\n"
            for step in steps
        ]
        (self.root / "plots/training/loss.tsv").write_text(
            "step\tloss\tlearning_rate\tgradient_norm\n" + "".join(rows)
        )
        metric = self.metric
        (self.root / "plots/training/validation.tsv").write_text(
            f"step\tloss\t{metric}\n200\t0.9\t0.6\n400\t0.7\t0.8\n600\t0.8\t0.7\n"
        )
        self.write("metrics/train.json", {"steps": 600, "best_step": 400})
        self.write(
            "reports/timing/train.json",
            {"seconds": 12.5, "peak_memory_mb": 400.0, "samples_per_second": 250.0},
        )

    def checks(self) -> None:
        passed = {
            "check": "rows",
            "split": "test",
            "table": "tokenized",
            "severity": "error",
            "status": "passed",
            "title": "Enough rows.",
        }
        passed |= {"found": "120", "allowed": "at least 20", "hint": None}
        passed |= {
            "rows": None,
            "failing": None,
            "observed": 120,
            "expectation": {"type": "expect_table_row_count"},
            "worst": [],
        }
        failed = {
            **passed,
            "check": "near_duplicates",
            "severity": "warning",
            "status": "failed",
            "title": "No row is almost another.",
        }
        failed |= {"found": "4 of 120 rows", "allowed": "0 %", "hint": "Leave one of them out."}
        head = {"passed": True, "errors": 0, "warnings": 1, "metrics": {"test_rows": 120}, "not_run": []}
        self.write("reports/checks/checks.json", {**head, "checks": [passed, failed]})
        (self.root / "reports/checks/index.html").write_text("<!doctype html>")

    def slices(self) -> None:
        metric = self.metric
        slices = [
            {"by": "length", "slice": "4 to 20 tokens", "rows": 60, metric: 0.9, "low": 0.8, "high": 0.95},
            {"by": "length", "slice": "21 to 70 tokens", "rows": 60, metric: 0.6, "low": 0.48, "high": 0.72},
            {"by": "overlap", "slice": HOSTILE, "rows": 3, metric: 0.5, "low": 0.1, "high": 0.9},
        ]
        self.write(
            "reports/slices.json",
            {"metric": metric, "level": 0.95, "worst": slices[1], "slices": slices},
        )

    def compare(self) -> None:
        metric = self.metric
        drop = {f"{metric}_drop": 0.0, f"{metric}_drop_low": 0.0, f"{metric}_drop_high": 0.0, metric: 0.8}
        close = {
            "max_abs_diff": 2e-6,
            "agreement": 1.0,
            "flips": 0,
            **drop,
            "violations": [],
        }
        close |= {"required": False, "published": True}
        far = {
            **close,
            "max_abs_diff": 0.4,
            "agreement": 0.9,
            "flips": 1,
            "violations": ["agreement is 0.9, less than 0.97"],
            "published": False,
        }
        head = {"split": "test", "rows": self.rows, "metric": metric, "trained": {metric: 0.8}}
        head["predictions"] = file_hash(self.root / "reports/predictions.parquet")
        self.write("reports/compare/comparison.json", {**head, "models": {"fp32": close, "int8": far}})
        self.write("metrics/compare.json", {"fp32_agreement": 1.0, "int8_agreement": 0.9})
        labels = list(self.task.names) if self.task.names else None
        usage = {
            "task": self.params["data.task"],
            "labels": labels,
            "text_columns": self.params["data.text_columns"],
        }
        record = export_record({"fp32": {"metrics": {metric: 0.8}}}, **usage, split="test")
        write_record(self.root / "models/onnx/export.json", record)

    def lock(self, seed: int) -> None:
        """Write ``dvc.lock``, and the outs to DVC's cache."""
        predictions = self.root / "reports/predictions.parquet"
        outs = [
            {"path": "data/raw", "md5": self.cache_folder(self.root / "data/raw")},
            {"path": "models/classifier", "md5": f"{seed:032x}.dir"},
            {"path": "reports/predictions.parquet", "md5": self.cache(predictions)},
            {"path": "plots/evaluation", "md5": self.cache_folder(self.root / "plots/evaluation")},
        ]
        deps = [{"path": "stages/train", "md5": "a" * 32}, {"path": "data/raw", "md5": outs[0]["md5"]}]
        stage = {
            "cmd": "python -m stages.all",
            "deps": deps,
            "params": {"params.yaml": self.params},
            "outs": outs,
        }
        with (self.root / "dvc.lock").open("w") as file:
            YAML().dump({"schema": "2.0", "stages": {"all": stage}}, file)

    def cache(self, path: Path) -> str:
        md5 = self._md5(path)
        target = self.root / ".dvc/cache/files/md5" / md5[:2] / md5[2:]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        return md5

    def cache_folder(self, folder: Path) -> str:
        listing = json.dumps(
            [{"md5": self.cache(path), "relpath": path.name} for path in sorted(folder.iterdir())]
        )
        md5 = hashlib.md5(listing.encode(), usedforsecurity=False).hexdigest() + ".dir"
        target = self.root / ".dvc/cache/files/md5" / md5[:2] / md5[2:]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(listing)
        return md5

    @staticmethod
    def _md5(path: Path) -> str:
        return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()

    def write(self, path: str, value: Any) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(json.dumps(value))

    def change_params(self, **params: Any) -> None:
        self.params |= params
