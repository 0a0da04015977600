import fcntl

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.clean import clean_leftovers, clean_scored
from flows.inbox import RefusedRecord
from flows.runs.checkout import isolated
from tuneline.core.written_records import write_record
from tuneline.predict.scored import METADATA, ScoredRecord
from tuneline.runtime.locks import locked
from tuneline.settings import Scoring

SCORING = Scoring()


@pytest.fixture
def score(clone, past):
    """Leaves a scored file, with its archived input or another file that the record names."""

    def score(name: str, days: float, archived: str | None, source: str = "") -> None:
        path = clone.root / SCORING.outbox / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        numbers = {"size": 1, "mtime_ns": 1, "rows": 1}
        texts = {"path": source or name, "sha256": "", "version": "v0.1.0", "commit": "c"}
        record = ScoredRecord(**numbers, **texts, seen=None, archived=archived)
        pq.write_table(
            pa.table({"row": [1]}).replace_schema_metadata({METADATA: record.model_dump_json()}), path
        )
        past.age(path, days)
        if archived:
            (clone.root / archived).parent.mkdir(parents=True, exist_ok=True)
            (clone.root / archived).write_text("x")

    return score


def test_old_results_go_with_inputs_that_no_other_result_needs(clone, past, cleaning, score):
    score("old.csv", 100, "data/archive/old.csv")
    score("shared.csv", 100, "data/archive/shared.csv")
    score("shared.csv.2", 1, "data/archive/shared.csv", source="shared.csv")
    score("waiting.csv", 100, None)
    score("evil.csv", 100, "params.yaml")
    outbox, inbox = clone.root / SCORING.outbox, clone.root / SCORING.inbox
    pq.write_table(
        pa.table({"a": [1]}), past.age(outbox / "old.csv.parquet", 100).with_name("foreign.parquet")
    )
    past.age(outbox / "foreign.parquet", 100)
    for name in ("refused.csv", "refused-again.csv"):
        write_record(
            outbox / f"{name}.error.json", RefusedRecord(path=name, size=1, mtime_ns=1, error="It is bad.")
        )
        past.age(outbox / f"{name}.error.json", 100)
    inbox.mkdir(parents=True)
    for name in ("waiting.csv", "refused-again.csv"):
        (inbox / name).touch()

    assert [row.number for row in clean_scored(cleaning(), SCORING)] == [0, 0]
    limits = {"scored_days": 90, "refused_days": 90}
    with locked(clone.state / "scoring.lock", wait=0):
        assert "being scored" in clean_scored(cleaning(**limits), SCORING, wait=0)[0].note
    dry = clean_scored(cleaning(dry_run=True, **limits), SCORING)
    before = {path.name for path in outbox.iterdir()}
    assert clean_scored(cleaning(**limits), SCORING) == dry
    after = {path.name for path in outbox.iterdir()}
    assert before - after == {
        "old.csv.parquet",
        "shared.csv.parquet",
        "evil.csv.parquet",
        "refused.csv.error.json",
    }
    assert after == {
        "shared.csv.2.parquet",
        "waiting.csv.parquet",
        "foreign.parquet",
        "refused-again.csv.error.json",
    }
    assert [path.name for path in (clone.root / "data/archive").iterdir()] == ["shared.csv"]
    assert (clone.root / "params.yaml").exists(), "a record names what it likes"
    assert dry[0].note == "with 1 archived inputs"


def test_leftovers_of_killed_programs_go_but_nothing_that_is_in_use(clone, past, cleaning):
    state = clone.state
    past.failure("failed-0a1b2c3d", 0)
    old = [".drift.json.0a1b2c3d.partial", "gone-0a1b2c3d.lock", "gone-0a1b2c3d.json.damaged"]
    kept = [
        "promotion.lock",
        "judgements.json",
        "failed-0a1b2c3d.lock",
        ".written.0a1b2c3d.partial",
        "young-0a1b2c3d.lock",
    ]
    for name in (*old, *kept):
        (state / name).touch()
    half = state / "half-0a1b2c3d"
    half.mkdir()
    for name in (*old, *kept[:-1], half.name):
        past.age(state / name, 2)
    for name, days in (("raw", 8), ("tokenized", 6)):
        (resumable := clone.root / f"data/.{name}.resumable").mkdir(parents=True)
        past.age(resumable, days)
    with (state / ".written.0a1b2c3d.partial").open() as written, isolated(clone, "alive-0a1b2c3d", "main"):
        fcntl.flock(written, fcntl.LOCK_EX)
        row = clean_leftovers(cleaning(dry_run=True), SCORING)
        assert {*row.names} == {*old, half.name, ".raw.resumable"}
        assert all((state / name).exists() for name in old)
        clean_leftovers(cleaning(), SCORING)
        left = {path.name for path in state.iterdir()}
    assert [path.name for path in (clone.root / "data").glob(".*")] == [".tokenized.resumable"], (
        "a stage may resume it"
    )
    assert left == {*kept, "failed-0a1b2c3d", "failed-0a1b2c3d.json", "checkouts.lock"} | {
        f"alive-0a1b2c3d{suffix}" for suffix in ("", ".lock", ".json")
    }
