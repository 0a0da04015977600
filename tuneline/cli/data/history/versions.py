"""The versions of the data: in the commits of the current branch, in those that the model registry names, and in the working tree."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from tuneline.paths import CHECKS, METRICS, RAW
from tuneline.records.checks import Checks
from tuneline.records.metrics import Metrics
from tuneline.records.profile import Profile
from tuneline.records.record import Record
from tuneline.records.words import WordCounts
from tuneline.registry import TAG_FORMAT, RegistryTags
from tuneline.repo import Commit, Lock, cached_out, commits, git, lock_at, read_lock

R = TypeVar("R", bound=Record)
COMMITS_AT_ONCE = 100
"""Commits whose ``dvc.lock`` is read by one process of git."""
RESULTS = 5
"""Commits of one version whose check results are looked for in the cache."""
RAW_HASH = re.compile(rf"^ *- path: {re.escape(RAW.as_posix())}\n(?: +\w+: .*\n)*? +md5: (\S+)", re.MULTILINE)
"""Finds the hash of ``data/raw`` in ``dvc.lock`` a thousand times faster than reading all of its YAML does."""


@dataclass(frozen=True)
class Version:
    """One version of ``data/raw``.

    Attributes:
        commit: The commit that added it; ``None`` if it is not committed.
        data: Hash of ``data/raw``.
        names: Its names in the model registry, for example ``onnx@v0.2.0`` and ``onnx#production``.
        metrics: ``metrics/validate.json``.
        profile: ``None`` if it is not in DVC's cache.
        words: Words of train; ``None`` if they are not in DVC's cache, or an older version of Tuneline checked the data.
        checks: Results of the data checks; ``None`` if they are not in DVC's cache.
    """

    commit: Commit | None
    data: str
    names: Sequence[str]
    metrics: Mapping[str, float]
    profile: Profile | None
    words: WordCounts | None
    checks: Checks | None

    @property
    def title(self) -> str:
        """Short hash of the commit."""
        return self.commit.short if self.commit else "not committed"


def read_versions(root: Path, number: int) -> list[Version]:
    """Return the newest versions, the newest first.

    Args:
        root: Root of the project.
        number: Versions to return, at most. Older commits are not read.
    """
    named = _names_by_commit(root)
    names: dict[str | None, list[str]] = {}
    for commit, data in _hashes(root, list(named)):
        names.setdefault(data, []).extend(named[commit])
    listed = {commit.sha: commit for commit in commits(root, "--topo-order", "HEAD", *named, "--", "dvc.lock")}
    committed = groupby(_hashes(root, list(listed)), key=lambda pair: pair[1])
    versions: list[Version] = []
    present = read_lock(root)
    is_first, data = True, present.out(RAW.as_posix())
    for md5, group in committed:
        if is_first and data not in (None, md5):
            versions.append(_in_working_tree(root, str(data)))
        is_first = False
        if md5 is not None and len(versions) < number:
            versions.append(_read(root, md5, [listed[sha] for sha, _ in group], sorted(names.get(md5, []))))
        if len(versions) >= number:
            break
    return [_in_working_tree(root, data)] if is_first and data else versions


def _names_by_commit(root: Path) -> dict[str, list[str]]:
    """Return the versions of all artifacts, and the stages that they are in now, by commit."""
    names: dict[str, list[str]] = {}
    for artifact, tags in RegistryTags.parse(git(root, "for-each-ref", f"--format={TAG_FORMAT}", "refs/tags")).items():
        for version in tags.versions:
            names.setdefault(version.commit, []).append(f"{artifact}@{version.name}")
        for stage in tags.stages:
            if present := tags.in_stage(stage):
                names.setdefault(present.commit, []).append(f"{artifact}#{stage}")
    return names


def _hashes(root: Path, shas: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Yield each commit with its hash of ``data/raw``; ``None`` if its ``dvc.lock`` has none."""
    for start in range(0, len(shas), COMMITS_AT_ONCE):
        part = shas[start : start + COMMITS_AT_ONCE]
        yield from zip(part, map(_raw_hash, _lock_texts(root, part)), strict=True)


def _raw_hash(lock: str) -> str | None:
    found = RAW_HASH.search(lock)
    return found[1] if found else None


def _lock_texts(root: Path, shas: Sequence[str]) -> Iterator[str]:
    """Yield ``dvc.lock`` of each commit; empty if it has none."""
    asked = "".join(f"{sha}:dvc.lock\n" for sha in shas).encode()
    printed = subprocess.run(["git", "cat-file", "--batch"], cwd=root, input=asked, capture_output=True, check=True).stdout
    start = 0
    for _ in shas:
        end = printed.index(b"\n", start)
        header = printed[start:end].split()
        size = int(header[2]) if header[-1] != b"missing" else -1  # a missing one has no content and no line end after it
        yield printed[end + 1 : end + 1 + max(size, 0)].decode(errors="replace")
        start = end + 2 + size


def _read(root: Path, data: str, group: Sequence[Commit], names: Sequence[str]) -> Version:
    """Read the version that neighbouring commits share, newest first: the latest results of its checks that the cache has."""
    for commit in group[:RESULTS]:
        lock = lock_at(root, commit.sha)
        if profile := _cached(root, lock, "profile.json", Profile):
            break
    metrics = _metrics_at(root, commit.sha)
    words, checks = _cached(root, lock, "words.json", WordCounts), _cached(root, lock, "checks.json", Checks)
    return Version(group[-1], data, names, metrics, profile, words, checks)


def _cached(root: Path, lock: Lock, name: str, record: type[R]) -> R | None:
    path = cached_out(root, lock, (CHECKS / name).as_posix())
    return record.read_if_valid(path) if path else None


def _metrics_at(root: Path, sha: str) -> dict[str, float]:
    try:
        return dict(json.loads(git(root, "show", f"{sha}:{(METRICS / 'validate.json').as_posix()}")))
    except ValueError:
        return {}


def _in_working_tree(root: Path, data: str) -> Version:
    checks = root / CHECKS
    return Version(
        None,
        data,
        [],
        Metrics.read_values(root / METRICS / "validate.json"),
        Profile.read_if_valid(checks / "profile.json"),
        WordCounts.read_if_valid(checks / "words.json"),
        Checks.read_if_valid(checks / "checks.json"),
    )
