"""Sixty nights with a cleaning every week: what is there at the end is bounded by the retention, not by the
number of nights."""

import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from flows.clean import DAY, clean_all
from flows.promotion.production import fetch_model
from flows.runs.repository import Repository
from tests.faults.clones import git
from tests.flows.clean.conftest import Past, cleaning_of
from tuneline.repository.dvc import cached_file, read_lock
from tuneline.repository.git import lock_at
from tuneline.settings import Retention, Settings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

NIGHTS = 60
RETENTION = Retention(
    branch_days=14, checkouts=3, checkout_days=14, checkpoint_days=7, models=3, cache_days=7
)
TABLE = {
    "branches": 14 + 7 + 2,
    "checkouts": 3,
    "checkpoints": 2,
    "objects": 24 + 2 * (14 + 7 + 2 + 9),
    "entries": 7 + 14 + 7 + 2 + 9,
    "MB": 4,
}
"""Most that may be there: results of two weeks and of the days since the last cleaning, of those in
production,
of versions; with the objects and entries of the pipeline itself."""


class Nights:
    """Writes what a night leaves: objects of 100 kB, an entry of the run cache, a commit, or the checkout of
    a failed run."""

    def __init__(self, toy: Repository) -> None:
        self.toy, self.past, self.first = toy, Past(toy), read_lock(toy.root).text
        self.cache = toy.root / ".dvc" / "cache"
        self.model = json.loads(cached_file(toy.root, read_lock(toy.root).out("models/onnx")).read_bytes())

    def store(self, content: bytes, days: float, suffix: str = "") -> str:
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest() + suffix
        path = self.cache / "files" / "md5" / md5[:2] / md5[2:]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        self.past.age(path, days)
        return md5

    def result(self, night: int) -> str:
        days, lock = NIGHTS - night, read_lock(self.toy.root)
        draw = hashlib.sha256(bytes([night])).digest() * 3000
        onnx = self.store(draw, days)
        listed = [
            {**entry, "md5": onnx} if entry["relpath"] == "model.onnx" else entry for entry in self.model
        ]
        folder = self.store(json.dumps(listed).encode(), days, ".dir")
        text = self.first.replace(lock.out("models/onnx"), folder)
        entry = self.cache / "runs" / "aa" / f"aa{night}" / f"{night}"
        entry.parent.mkdir(parents=True)
        entry.write_text(f"cmd: python toy.py export\nouts:\n- path: models/onnx\n  md5: {folder}\n")
        self.past.age(entry, days)
        return self.past.run(f"night-{night}", days, lambda path: (path / "dvc.lock").write_text(text)).commit


def counts(toy: Repository) -> dict[str, float]:
    cache = toy.root / ".dvc" / "cache"
    objects = [path for path in (cache / "files").rglob("*") if path.is_file()]
    return {
        "branches": len(git(toy.root, "for-each-ref", "refs/heads/runs").splitlines()),
        "checkouts": len([*toy.state.glob("*/.git")]),
        "checkpoints": len([*toy.root.glob("checkpoints/*")]),
        "objects": len(objects),
        "entries": len([path for path in (cache / "runs").rglob("*") if path.is_file()]),
        "MB": sum(path.stat().st_size for path in objects) / 1e6,
    }


def test_sixty_nights_leave_what_the_retention_says(toy, promoted, registry, pipeline):
    for path in (toy.root / ".dvc" / "cache").rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - (NIGHTS + 1) * DAY,) * 2)
    nights = Nights(toy)
    for night in range(NIGHTS):
        if night % 12 == 11:
            nights.past.failure(f"failed-{night}", NIGHTS - night)
        else:
            commit = nights.result(night)
        if night % 10 == 0:
            registry.promote(commit, "production", "It is better.")
        if night % 7 == 6:
            cleaning = cleaning_of(toy, now=time.time() - (NIGHTS - night - 0.5) * DAY, **dict(RETENTION))
            _, problems = clean_all(cleaning, Settings(retention=RETENTION))
            assert problems == []
    left = counts(toy)
    print(left)
    assert {what: number for what, number in left.items() if number > TABLE[what]} == {}
    assert left["branches"] >= 14, "and those that are young are there"
    versions = registry.tags().versions
    assert len(versions) == 7
    for version in versions:
        assert cached_file(toy.root, lock_at(toy.root, version.commit).out("models/onnx"))
    model = fetch_model(registry, versions[1], pipeline)
    assert Path(model.folder, "model.onnx").stat().st_size > 90_000, "its branch is gone, its model is not"
