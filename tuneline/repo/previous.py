"""The result of another commit, to compare the current one with, and its files in DVC's cache."""

import configparser
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneline.paths import RAW
from tuneline.repo.history import EVALUATED, Commit, Lock, commits, lock_at, metrics_at, read_lock


@dataclass(frozen=True)
class PreviousResult:
    """The result of another commit.

    Attributes:
        commit: The commit.
        metrics: Its ``metrics/evaluate.json``.
        comparable: True if it was measured on the same rows: same raw data, same split.
        lock: Its ``dvc.lock``.
        root: Root of the project.
    """

    commit: Commit
    metrics: dict[str, float]
    comparable: bool
    lock: Lock
    root: Path

    def file(self, path: str) -> Path | None:
        """Return where DVC's cache has a file of that commit; ``None`` if it is not in the cache. Nothing is fetched.

        Args:
            path: Relative to the root of the project.
        """
        if md5 := self.lock.out(path):
            return cached_file(self.root, md5)
        folder, _, name = path.rpartition("/")
        listing = cached_file(self.root, self.lock.out(folder))
        if listing is None:
            return None
        entries = json.loads(listing.read_text(encoding="utf-8"))
        return next((cached_file(self.root, entry["md5"]) for entry in entries if entry["relpath"] == name), None)


def find_previous(root: Path, current: Mapping[str, float], reference: str | None = None) -> PreviousResult | None:
    """Return the result of ``reference``, by default of the newest commit with other metrics; ``None`` if there is none.

    Args:
        root: Root of the project.
        current: Metrics of the working tree.
        reference: Any git name of a commit.
    """
    candidates = commits(root, "-1", reference, "--") if reference else commits(root, "-100", "--", EVALUATED)
    for commit in candidates:
        metrics = metrics_at(root, commit.sha)
        if metrics and (reference or metrics != current):
            current_lock, lock = read_lock(root), lock_at(root, commit.sha)
            rows = _evaluated_rows(lock)
            comparable = rows == _evaluated_rows(current_lock) and None not in rows
            return PreviousResult(commit, metrics, comparable, lock, root)
    return None


def _evaluated_rows(lock: Lock) -> tuple[str | None, Any]:
    return lock.out(RAW.as_posix()), lock.params().get("evaluate.split")


def cached_file(root: Path, md5: str | None) -> Path | None:
    """Return where DVC's cache has a file or a folder's listing with that hash; ``None`` if it is not in the cache."""
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
