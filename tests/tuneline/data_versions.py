"""A git repository with versions of data, whose profiles the code of the stage ``validate`` writes to DVC's
cache."""

import hashlib
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from ruamel.yaml import YAML

from stages.validate.raw import read_raw
from stages.validate.tables import count_train_words, profile_split
from tests.params import params
from tests.project import GIT_IDENTITY
from tuneline.core.tables import SplitReader, raw_schema, write_table
from tuneline.reports.checks import CheckEntry, Checks, Profile
from tuneline.tasks import task_with_names

Rows = Sequence[tuple[str, str]]


class DataVersions:
    """A repository; each version is a commit."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "dvc.yaml").write_text("stages: {}\n")
        (root / ".gitignore").write_text("/data/\n/derived/\n/reports/\n/.dvc/cache/\n")
        self.git("init", "--quiet", "--initial-branch", "main")

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

    def check(self, train: Rows, test: Rows, failed: Sequence[str] = (), source: str = "tickets") -> None:
        """Write the data, its check results and ``dvc.lock``.

        Args:
            train: Texts and class names.
            test: Likewise.
            failed: Checks that failed with a warning.
            source: Value of ``data.path``.
        """
        labels = task_with_names(tuple(sorted({label for _, label in train})))
        files = {}
        for name, rows in {"train": train, "test": test}.items():
            path = self.root / f"data/raw/{name}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            columns = {
                "text": [text for text, _ in rows],
                "labels": [labels.names.index(label) for _, label in rows],
            }
            write_table(
                pa.table({**columns, "idx": range(len(rows))}, schema=raw_schema(("text",), labels)), path
            )
            files[name] = SplitReader.open(path.parent, name, "download")
        splits = read_raw(files, ["text"], self.root / "derived", params().run)
        checks = self.root / "reports/checks"
        checks.mkdir(parents=True, exist_ok=True)
        profiles = {name: profile_split(split, labels) for name, split in splits.items()}
        Profile(version=1, labels=labels.names, splits=profiles).write(checks / "profile.json")
        count_train_words(splits["train"]).write(checks / "words.json")
        head = {"passed": True, "errors": 0, "warnings": len(failed), "metrics": {}, "not_run": []}
        Checks(**head, checks=[warning(key) for key in failed]).write(checks / "checks.json")
        metrics = {"train_rows": len(train), "test_rows": len(test), "warnings": len(failed)}
        (self.root / "metrics").mkdir(exist_ok=True)
        (self.root / "metrics/validate.json").write_text(json.dumps(metrics))
        outs = [{"path": "data/raw", "hash": "md5", "md5": self._folder("data/raw")}]
        deps = [{"path": "data/raw", "hash": "md5", "md5": outs[0]["md5"]}]
        params_yaml = {"data": {"source": "files", "path": source, "text_columns": ["text"]}}
        stages = {
            "download": {
                "cmd": "python -m stages.download",
                "params": {"params.yaml": params_yaml},
                "outs": outs,
            }
        }
        stages["validate"] = {"cmd": "python -m stages.validate", "deps": deps}
        stages["validate"]["outs"] = [
            {"path": "reports/checks", "hash": "md5", "md5": self._folder("reports/checks")}
        ]
        with (self.root / "dvc.lock").open("w") as file:
            YAML().dump({"schema": "2.0", "stages": stages}, file)

    def commit(self, message: str) -> str:
        """Commit, and return the short hash."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "--short", "HEAD")

    def _folder(self, folder: str) -> str:
        """Put a folder into DVC's cache and return its hash."""
        files = sorted((self.root / folder).iterdir())
        listing = [{"md5": self._cached(path.read_bytes()), "relpath": path.name} for path in files]
        return self._cached(json.dumps(listing).encode(), ".dir")

    def _cached(self, content: bytes, suffix: str = "") -> str:
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest() + suffix
        path = self.root / ".dvc/cache/files/md5" / md5[:2] / md5[2:]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return md5


def warning(key: str) -> CheckEntry:
    """Return a failed check of severity ``warning``."""
    return CheckEntry(
        check=key,
        split="train",
        table="raw",
        severity="warning",
        status="failed",
        title="Texts are good.",
        found="3 of 60 rows (5 %)",
        allowed="at most 0 %",
        rows=60,
        failing=3,
        observed=None,
        expectation={"type": "expect_column_values_to_be_between"},
        worst=[],
        hint="Look at them.",
    )
