"""Experiments as ``dvc exp run`` keeps them, made in milliseconds: without DVC, and with predictions of a
given accuracy."""

import hashlib
import json
import shutil
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.dvc_files import init_dvc
from tests.params import change_params, write_params
from tests.project import GIT_IDENTITY
from tuneline.core.params.loading import read_yaml
from tuneline.core.repository.git import run_git
from tuneline.core.stage.tables import write_table
from tuneline.judge.metrics.predictions import Predictions, write_predictions
from tuneline.judge.metrics.stats import metric_interval
from tuneline.judge.metrics.table import METRIC_TABLE
from tuneline.model.tasks import Classification
from tuneline.model.tasks.columns import raw_schema
from tuneline.operations.experiments.saved import SavedExperiment

SCHEMA = Classification(("same", "different"))
ROWS = 400


class ExperimentRepository:
    """A repository of git and DVC with experiments."""

    def __init__(self, root: Path) -> None:
        self.root = root
        run_git(root, "init", "--quiet", "--initial-branch=main")
        run_git(root, "config", "user.email", GIT_IDENTITY["GIT_AUTHOR_EMAIL"])
        run_git(root, "config", "user.name", "Test")
        init_dvc(root)
        write_params(root)
        (root / "dvc.yaml").write_text("stages: {}\n")
        (root / "conf/accelerate").mkdir(parents=True)
        run_git(root, "add", "--all")
        run_git(root, "commit", "--quiet", "--message=Start")

    def copied_to(self, folder: Path) -> "ExperimentRepository":
        """Copy the repository into an empty folder."""
        shutil.copytree(self.root, folder, symlinks=True, dirs_exist_ok=True)
        copied = copy(self)
        copied.root = folder
        return copied

    def save(
        self,
        name: str,
        accuracy: float,
        *,
        rows: int = ROWS,
        metrics: dict[str, float] | None = None,
        **changes: Any,
    ) -> SavedExperiment:
        """Save an experiment whose predictions are correct on the first rows, given parameters as
        ``train__epochs=3``."""
        change_params(self.root, {key.replace("__", "."): value for key, value in changes.items()})
        folder = self.root / ".dvc/tmp/made"
        folder.mkdir(parents=True, exist_ok=True)
        outs = {
            "data/raw": self._store_folder({"validation.parquet": self._raw(folder, rows)}),
            "reports/validation.parquet": self._store(self._predictions(folder, accuracy, rows)),
        }
        used = {"train": read_yaml(self.root / "params.yaml")["train"]}
        made = [{"path": path, "md5": md5} for path, md5 in outs.items()]
        lock = {"train": {"cmd": "train", "params": {"params.yaml": used}, "outs": made}}
        (self.root / "dvc.lock").write_text(json.dumps({"schema": "2.0", "stages": lock}))
        (self.root / "metrics").mkdir(exist_ok=True)
        (self.root / "metrics/train.json").write_text(json.dumps(metrics or self._metrics(accuracy, rows)))

        base = run_git(self.root, "rev-parse", "HEAD")
        run_git(self.root, "add", "params.yaml", "dvc.lock", "metrics")
        commit = run_git(self.root, "commit-tree", run_git(self.root, "write-tree"), "-p", base, "-m", name)
        run_git(self.root, "update-ref", f"refs/exps/{base[:2]}/{base[2:]}/{name}", commit)
        run_git(self.root, "reset", "--quiet", "--hard")
        return SavedExperiment(self.root, name, commit, base)

    def _metrics(self, accuracy: float, rows: int) -> dict[str, float]:
        estimate = metric_interval(METRIC_TABLE["accuracy"], np.arange(rows) % 2, _predicted(accuracy, rows))
        return {
            "best_accuracy": estimate.value,
            "best_accuracy_low": estimate.low,
            "best_accuracy_high": estimate.high,
        }

    def _raw(self, folder: Path, rows: int) -> Path:
        columns = {
            "subject": ["a"] * rows,
            "body": ["b"] * rows,
            "labels": np.arange(rows) % 2,
            "idx": range(rows),
        }
        write_table(pa.table(columns, schema=raw_schema(("subject", "body"), SCHEMA)), folder / "raw.parquet")
        return folder / "raw.parquet"

    def _predictions(self, folder: Path, accuracy: float, rows: int) -> Path:
        logits = np.eye(2, dtype=np.float32)[_predicted(accuracy, rows)]
        predictions = Predictions.of_logits(np.arange(rows) % 2, logits, SCHEMA)
        write_predictions(folder / "validation.parquet", predictions)
        return folder / "validation.parquet"

    def _store(self, path: Path, suffix: str = "") -> str:
        content = path.read_bytes()
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
        target = self.root / ".dvc/cache/files/md5" / md5[:2] / f"{md5[2:]}{suffix}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        return f"{md5}{suffix}"

    def _store_folder(self, files: dict[str, Path]) -> str:
        listing = next(iter(files.values())).with_name("listing")
        listing.write_text(
            json.dumps([{"md5": self._store(path), "relpath": name} for name, path in files.items()])
        )
        return self._store(listing, ".dir")


def _predicted(accuracy: float, rows: int) -> np.ndarray:
    labels = np.arange(rows) % 2
    return np.where(np.arange(rows) < accuracy * rows, labels, 1 - labels)
