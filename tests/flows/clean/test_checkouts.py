from flows.clean import clean_checkouts, clean_leftovers, clean_models, clean_refused_batches
from flows.ingest import REFUSED_FOLDER
from flows.runs.checkout import isolated
from tests.faults.clones import git
from tuneline.settings import Scoring


def left(clone) -> set[str]:
    return {path.name for path in clone.state.iterdir() if path.is_dir()}


def test_old_checkouts_and_checkpoints_of_failed_runs_go_but_none_of_a_live_run(clone, past, cleaning):
    with isolated(clone, "alive", "main") as alive:
        past.age(alive.path, 100)
        for number in range(4):
            past.failure(f"run-{number}", 40 - 10 * number)  # 40, 30, 20, 10 days ago
        assert [row.number for row in clean_checkouts(cleaning())] == [0, 0]
        limits = {"checkouts": 3, "checkout_days": 35, "checkpoint_days": 15}
        dry = clean_checkouts(cleaning(dry_run=True, **limits))
        before = left(clone)
        assert clean_checkouts(cleaning(**limits)) == dry
        assert before - left(clone) == {"run-0"} == {*dry[0].names}
        assert [*dry[1].names] == ["run-0", "run-1", "run-2"]
        assert dry[1].bytes == 3000
        assert [path.name for path in (clone.root / "checkpoints").iterdir()] == ["run-3"]
        assert [*clean_checkouts(cleaning(checkouts=0))[0].names] == ["run-1", "run-2", "run-3"]
        assert left(clone) == {"alive"}
    assert git(clone.root, "worktree", "list").count("\n") == 0


def test_models_that_were_used_last_are_kept_whatever_the_clock(clone, past, cleaning):
    for number in range(4):
        folder = clone.state / "models" / f"onnx-v0.{number}.0-abc"
        folder.mkdir(parents=True)
        past.age(folder, number - 1)  # one was fetched while the clock was ahead
    (clone.state / "models" / ".lock").touch()
    assert clean_models(cleaning()).number == 0
    assert [*clean_models(cleaning(models=2)).names] == ["onnx-v0.3.0-abc", "onnx-v0.2.0-abc"]
    assert {path.name for path in (clone.state / "models").iterdir()} == {
        ".lock",
        "onnx-v0.0.0-abc",
        "onnx-v0.1.0-abc",
    }


def test_old_refused_batches_go_and_those_that_a_killed_cleaning_renamed(clone, past, cleaning):
    for name, days in (("old", 100), (".half.former", 2), ("young", 1)):
        folder = clone.state / REFUSED_FOLDER / name
        (folder / "checks").mkdir(parents=True)
        (folder / "batch.parquet").write_bytes(b"x" * 1000)
        past.age(folder, days)
    assert clean_refused_batches(cleaning()).number == 0
    dry = clean_refused_batches(cleaning(dry_run=True, refused_days=90))
    assert clean_refused_batches(cleaning(refused_days=90)) == dry
    assert ([*dry.names], dry.bytes) == (["old"], 1000)
    assert [*clean_leftovers(cleaning(), Scoring()).names] == [".half.former"]
    assert [path.name for path in (clone.state / REFUSED_FOLDER).iterdir()] == ["young"]
