"""The result of another commit, and what of it still lies in DVC's cache."""

import configparser
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneline.repo.history import EVALUATED, Commit, Lock, commits, lock_at, metrics_at, read_lock

PREDICTIONS = "reports/predictions.parquet"
RAW = "data/raw"


@dataclass(frozen=True)
class Earlier:
    """The result of another commit.

    Attributes:
        commit: Which.
        metrics: Of ``metrics/evaluate.json``.
        comparable: Whether it was measured on the same rows: the same raw data, the same split.
        lock: ``dvc.lock`` of then.
        root: The project.
    """

    commit: Commit
    metrics: dict[str, float]
    comparable: bool
    lock: Lock
    root: Path

    def file(self, path: str) -> Path | None:
        """Where a file that the line made then lies in DVC's cache, if it still does. Nothing is fetched."""
        if md5 := self.lock.out(path):
            return cached(self.root, md5)
        folder, _, name = path.rpartition("/")
        listing = cached(self.root, self.lock.out(folder))
        if listing is None:
            return None
        entries = json.loads(listing.read_text(encoding="utf-8"))
        return next((cached(self.root, entry["md5"]) for entry in entries if entry["relpath"] == name), None)


def earlier(root: Path, current: Mapping[str, float], reference: str | None = None) -> Earlier | None:
    """The result to compare with: that of ``reference``, else the newest committed one with other metrics.

    Args:
        root: The project.
        current: The metrics of now.
        reference: Any name of a commit.
    """
    candidates = commits(root, "-1", reference, "--") if reference else commits(root, "-100", "--", EVALUATED)
    for commit in candidates:
        metrics = metrics_at(root, commit.sha)
        if metrics and (reference or metrics != current):
            now, then = read_lock(root), lock_at(root, commit.sha)
            same = _rows_of(now) == _rows_of(then) and None not in _rows_of(now)
            return Earlier(commit, metrics, same, then, root)
    return None


def _rows_of(lock: Lock) -> tuple[str | None, Any]:
    return lock.out(RAW), lock.params().get("evaluate.split")


def cached(root: Path, md5: str | None) -> Path | None:
    """Where a file or a folder's listing of that hash lies in DVC's cache, if it does."""
    if md5 is None:
        return None
    return next((path for cache in _caches(root) if (path := cache / "files/md5" / md5[:2] / md5[2:]).is_file()), None)


def _caches(root: Path) -> Iterator[Path]:
    for name in ("config.local", "config"):
        config = configparser.ConfigParser()
        try:
            config.read(root / ".dvc" / name, encoding="utf-8")
        except (configparser.Error, OSError):
            continue
        if folder := config.get("cache", "dir", fallback=None):
            yield root / ".dvc" / folder
    yield root / ".dvc/cache"
