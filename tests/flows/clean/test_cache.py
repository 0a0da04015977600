"""DVC's cache of the small pipeline: what is used stays, whatever names it; the rest goes."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from flows.clean import clean_cache
from flows.promotion.production import fetch_model
from flows.runs.checkout import isolated
from flows.runs.commits import Run, RunResult, commit_run
from flows.runs.pipeline import Pipeline
from flows.runs.processes import ProgramError, Programs
from tests.dvc_files import add_remote, configure_dvc
from tests.faults.kills import kills
from tests.flows.clean.conftest import cleaning_of
from tests.flows.conftest import sh
from tuneline.repository.dvc import Lock, cached_file, read_lock
from tuneline.repository.dvc_locks import RWLOCK
from tuneline.repository.garbage import CacheInUseError, check_idle, collect_garbage
from tuneline.repository.git import lock_at


def test_cache_that_others_may_use_is_left(clone, cleaning, tmp_path):
    (clone.root / ".dvc" / "config.local").write_text(f"[cache]\n    dir = {tmp_path / 'shared'}\n")
    row = clean_cache(cleaning(cache_days=0), [])
    assert (row.number, row.note) == (
        0,
        f"left: other clones may use {tmp_path / 'shared'} (retention.own_cache)",
    )
    assert clean_cache(cleaning(), []).note == "", "it is kept for ever anyway"


def test_cache_is_left_while_a_run_is_active(clone, past, cleaning):
    past.failure("failed", 0)
    with isolated(clone, "trains", "main"):
        row = clean_cache(cleaning(cache_days=0, cache_wait_minutes=0), [])
    assert row.note == "left: run trains is active"


def test_cache_is_left_while_a_person_runs_a_stage(clone):
    rwlock = clone.root / ".dvc" / "tmp" / "rwlock"
    check_idle(clone.root)
    for held in (
        {"write": {"model": {"pid": os.getpid(), "cmd": "repro"}}},
        {"read": {"data": [{"pid": os.getpid(), "cmd": "repro"}]}},
    ):
        rwlock.write_text(json.dumps(held))
        with pytest.raises(CacheInUseError, match=f"{os.getpid()} .*{clone.root}"):
            check_idle(clone.root)
    rwlock.write_text(json.dumps({"write": {"model": {"pid": 2**22 + 1, "cmd": "killed"}}, "read": {}}))
    check_idle(clone.root)
    # in a container, another process soon has the number of a killed one
    rwlock.write_text(json.dumps({"write": {"model": {"pid": os.getpid(), "cmd": "dvc repro model"}}}))
    check_idle(clone.root)


@pytest.mark.parametrize("content", [b"", b'{"write": {"mo'])
def test_cache_is_left_while_it_is_unknown_whether_a_person_runs_a_stage(clone, content):
    (clone.root / RWLOCK).write_bytes(content)
    with pytest.raises(CacheInUseError, match=f"{clone.root / RWLOCK} is damaged.*tuneline doctor"):
        check_idle(clone.root)
    tree = clone.state / "killed"
    (tree / RWLOCK).parent.mkdir(parents=True)
    (tree / RWLOCK).write_bytes(content)
    check_idle(tree)


def compute(root: Path, *overrides: str) -> None:
    programs = Programs(root, "compute")
    Pipeline(programs, print).compose(overrides)
    Pipeline(programs, print).dvc("repro", what="The small pipeline")


def result(toy, name: str, *overrides: str) -> RunResult:
    """Make the branch of a run."""
    with isolated(toy, name, "main") as checkout:
        compute(checkout.path, *overrides)
        return commit_run(toy, checkout, Run(id=name, name=name), "It ended.")


def is_cached(toy, lock: Lock) -> bool:
    """True if the cache has every out of a version, with all files."""
    cached = {
        "data/raw",
        "data/tokenized",
        "reports/checks",
        "models/classifier",
        "reports/predictions.parquet",
        "models/onnx",
    }
    for path in cached & lock.outs().keys():
        listing = cached_file(toy.root, lock.outs()[path])
        entries = json.loads(listing.read_bytes()) if listing and listing.suffix == ".dir" else []
        if listing is None or not all(cached_file(toy.root, entry["md5"]) for entry in entries):
            return False
    return bool(lock.outs())


def age_cache(toy, days: float) -> None:
    for path in (toy.root / ".dvc" / "cache").rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - days * 86400,) * 2)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.promise("killed-clean")
def test_what_anything_names_stays_and_the_run_cache_restores_it(toy, promoted, registry, pipeline, tmp_path):
    better = result(toy, "better", "model.skill=0.95")
    registry.promote(better.commit, "production", "It is better.")
    rejected = result(toy, "rejected", "model.skill=0.3")
    rejected_lock = lock_at(toy.root, rejected.commit)
    for branch in (better.branch, rejected.branch):
        sh("git", "branch", "-D", branch, cwd=toy.root)
    compute(toy.root, "model.skill=0.5")
    stashed = read_lock(toy.root)
    sh("git", "stash", "--quiet", cwd=toy.root)
    sh("git", "worktree", "add", "--quiet", "--detach", str(tmp_path / "tree"), "main", cwd=toy.root)
    configure_dvc(tmp_path / "tree", "cache", local=True, dir=str(toy.root / ".dvc" / "cache"))
    compute(tmp_path / "tree", "model.skill=0.6")
    compute(toy.root, "model.skill=0.7")
    named = [
        stashed,
        read_lock(tmp_path / "tree"),
        read_lock(toy.root),
        lock_at(toy.root, "main"),
        lock_at(toy.root, better.commit),
    ]
    assert all(is_cached(toy, lock) for lock in (*named, rejected_lock))

    assert clean_cache(cleaning_of(toy, cache_days=14), []).number == 0, "everything is young"
    age_cache(toy, 100)
    dry = clean_cache(cleaning_of(toy, cache_days=14, dry_run=True), [])
    assert dry.number
    assert is_cached(toy, rejected_lock)
    assert clean_cache(cleaning_of(toy, cache_days=14), []) == dry
    assert not is_cached(toy, rejected_lock)
    assert clean_cache(cleaning_of(toy, cache_days=14), []).number == 0
    assert [lock for lock in named if not is_cached(toy, lock)] == []
    assert len(registry.tags().versions) == 2
    for version in registry.tags().versions:
        fetch_model(registry, version, pipeline)
        sh(
            "dvc",
            "artifacts",
            "get",
            ".",
            "onnx",
            "--rev",
            version.name,
            "--out",
            str(tmp_path / version.name),
            cwd=toy.root,
        )
        assert (tmp_path / version.name / "model.onnx").exists()

    with isolated(toy, "again", "main") as checkout:
        again = Pipeline(Programs(checkout.path, "again"), print)
        again.compose(["model.skill=0.95"])
        outcomes = {again.reproduce(stage) for stage in again.graph().stages}
    assert outcomes == {"restored"}, "no night trains again what a version has"


@pytest.mark.slow
def test_remote_is_collected_only_if_the_setting_says_so(toy, promoted, tmp_path):
    add_remote(toy.root, tmp_path / "shelf", local=True)
    sh("dvc", "push", "--quiet", cwd=toy.root)
    rejected = result(toy, "rejected", "model.skill=0.3")
    sh("dvc", "push", "--quiet", "--all-branches", cwd=toy.root)
    sh("git", "branch", "-D", rejected.branch, cwd=toy.root)
    age_cache(toy, 100)

    def stored() -> set[str]:
        return {path.name for path in (tmp_path / "shelf").rglob("*") if path.is_file()}

    before = stored()
    clean_cache(cleaning_of(toy, cache_days=14), [])
    assert stored() == before
    row = clean_cache(cleaning_of(toy, cache_days=14, remote=True), [])
    assert row.note == f"{len(before - stored())} objects of the DVC remote"
    assert before - stored()
    shutil.rmtree(toy.root / ".dvc" / "cache")
    sh("dvc", "pull", "--quiet", cwd=toy.root)


@pytest.mark.slow
def test_weights_that_were_never_pushed_do_not_stop_the_collection_of_the_remote(toy, promoted, tmp_path):
    """A rejected result of another clone: this one has no list of its weights, and neither has the remote."""
    add_remote(toy.root, tmp_path / "shelf", local=True)
    rejected = lock_at(toy.root, result(toy, "rejected", "model.skill=0.3").commit)
    cached_file(toy.root, rejected.out("models/onnx")).unlink()
    cleaning = cleaning_of(toy, cache_days=14, remote=True)
    with pytest.raises(ProgramError, match="reports/checks"):
        unpushed = cached_file(toy.root, rejected.out("reports/checks"))
        unpushed.rename(tmp_path / "checks")
        clean_cache(cleaning, [])
    (tmp_path / "checks").rename(unpushed)
    assert clean_cache(cleaning, []).note == ""


@pytest.mark.slow
def test_killed_collection_loses_nothing_that_is_used(toy, promoted):
    rejected = result(toy, "rejected", "model.skill=0.3")
    lock = lock_at(toy.root, rejected.commit)
    sh("git", "branch", "-D", rejected.branch, cwd=toy.root)
    age_cache(toy, 100)
    main = toy.resolve("main")

    def collection() -> dict[str, int]:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(toy.root)
            return collect_garbage(toy.root, [main], [], time.time() - 86400, dry=False, remote=False)

    def is_removal(event: str, arguments: tuple) -> bool:
        return event == "os.remove" and ".dvc/cache" in str(arguments[0])

    for number in kills(collection, is_removal):
        assert is_cached(toy, lock_at(toy.root, main)), f"killed before removal {number}"
    assert not is_cached(toy, lock)
    assert collection() == {"objects": 0, "bytes": 0, "remote": 0}
