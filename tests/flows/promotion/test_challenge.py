"""Rows that were labelled since decide about a candidate that the reported split could not tell apart."""

import random
from pathlib import Path

import pytest

from flows.promotion.challenge import challenge
from flows.promotion.registry import RegistryError
from tests.flows.conftest import sh
from tuneline.gating.error_budget import NEW_ROWS
from tuneline.repository.git import why_no_gate
from tuneline.settings import PromotionPolicy

QUEUES = ("billing", "parcel", "login", "other")
REJECTED = "Rejected (v0.1.0 in production): not enough.\n\n- x McNemar's test: p = 0.1 (required: less)\n"
POLICY = PromotionPolicy(error_rate=0.4)


@pytest.fixture
def rejected(toy, registry, pipeline) -> str:
    """Put a model into production, and make a better one that the gate has rejected."""
    commits = []
    for overrides, message in ((["task=weak"], "A run"), (["task=strong"], REJECTED)):
        pipeline.compose(overrides)
        pipeline.dvc("repro", "--quiet", what="The pipeline")
        sh("git", "add", "--all", cwd=toy.root)
        sh("git", "commit", "--quiet", f"--message={message}", cwd=toy.root)
        commits.append(toy.resolve("HEAD"))
    registry.promote(commits[0], "production", "It is good.")
    return commits[1]


def labelled(folder: Path, rows: int, texts: int | None = None, greeting: str | None = None) -> Path:
    """Write rows: a word that decides the queue, by default among words that no model has seen."""
    draw = random.Random(0)
    distinct = []
    for row in range(texts or rows):
        word = draw.randrange(400)
        others = greeting or f"x{row}a x{row}b x{row}c x{row}d"
        distinct.append(f"{others} w{word},{QUEUES[word % 4]}")
    lines = [distinct[row % len(distinct)] for row in range(rows)]
    path = folder / f"labelled-{rows}.csv"
    path.write_text("\n".join(["text,queue", *lines]) + "\n")
    return path


def ask(pipeline, registry, commit, file, policy=POLICY):
    return challenge(pipeline, registry, policy, commit, file, label="queue")


def test_better_candidate_is_promoted_when_enough_rows_are_labelled(
    toy, registry, pipeline, rejected, tmp_path
):
    few = ask(pipeline, registry, rejected, labelled(tmp_path, 20))
    assert few.version is None
    assert registry.in_stage("production").name == "v0.1.0"

    many = ask(pipeline, registry, rejected, labelled(tmp_path, 400))
    assert (many.rows, many.seen) == (400, 0)
    assert many.votes.candidate > many.votes.production
    assert registry.in_stage("production") == many.version
    assert many.version.commit == rejected
    assert why_no_gate(toy.root, registry.tags(), "production") is None, "it is a decision of the gate"

    # the candidate has used up its part once
    first, second = registry.gate_log.entries()
    assert (first.rows_hash, first.level) == (NEW_ROWS, pytest.approx(0.2 * 0.4 / 13))
    assert (second.level, second.outcome) == (0, "promoted")


def test_worse_candidate_is_not_promoted(registry, pipeline, rejected, toy, tmp_path):
    worse = registry.in_stage("production").commit
    registry.promote(rejected, "production", "It is better.")
    sh("git", "checkout", "--quiet", "--detach", worse, cwd=toy.root)
    sh("git", "commit", "--quiet", "--amend", f"--message={REJECTED}", cwd=toy.root)
    result = ask(pipeline, registry, toy.resolve("HEAD"), labelled(tmp_path, 400))
    assert result.version is None
    assert result.log_e < 0


def test_rows_that_a_model_has_seen_are_left_out(registry, pipeline, rejected, tmp_path):
    result = ask(pipeline, registry, rejected, labelled(tmp_path, 400, greeting="please help"))
    assert result.seen > 300
    assert result.rows == 400 - result.seen


def test_copies_have_one_vote(registry, pipeline, rejected, tmp_path):
    result = ask(pipeline, registry, rejected, labelled(tmp_path, 400, texts=20))
    assert result.rows == 400
    assert result.votes.discordant <= 20


def test_hold_and_other_criteria_stop_a_challenge(toy, registry, pipeline, rejected, tmp_path):
    file = labelled(tmp_path, 20)
    with pytest.raises(RegistryError, match="no result that the gate has rejected"):
        ask(pipeline, registry, f"{rejected}^^", file)
    slow = f"{REJECTED}- x latency of one row in ms: 999 (required: <= 250)"
    sh("git", "commit", "--quiet", "--amend", f"--message={slow}", cwd=toy.root)
    with pytest.raises(RegistryError, match="latency of one row in ms: 999"):
        ask(pipeline, registry, "HEAD", file)
    registry.hold("production", "A release is tested.", push=False)
    with pytest.raises(RegistryError, match="A release is tested"):
        ask(pipeline, registry, rejected, file)
    assert registry.gate_log.entries() == []


def test_used_up_budget_promotes_nothing(registry, pipeline, rejected, tmp_path):
    ask(pipeline, registry, rejected, labelled(tmp_path, 20))
    entry = registry.gate_log.entries()[0]
    sh("git", "update-ref", "-d", registry.gate_log.ref, cwd=registry.repository.root)
    for number in range(13):
        registry.gate_log.append(entry.model_copy(update={"candidate": f"other {number}"}))
    result = ask(pipeline, registry, rejected, labelled(tmp_path, 400))
    assert (result.level, result.version) == (0, None)
    assert "used up" in str(result)
