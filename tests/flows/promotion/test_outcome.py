import json
from dataclasses import replace

import numpy as np
import pytest

from flows.promotion.gate import (
    PromotionCriterion,
    PromotionDecision,
    as_markdown,
    as_payload,
    decide_promotion,
)
from flows.promotion.paired_predictions import PairedPredictions
from tests.flows.conftest import sh
from tuneline.repository.registry import Version
from tuneline.settings import PromotionPolicy
from tuneline.tasks import Classification


@pytest.fixture
def outcome() -> PromotionDecision:
    labels = np.arange(400) % 4
    rows = PairedPredictions(labels, labels, labels * 0, Classification(("a", "b", "c", "d")))
    return decide_promotion(
        rows, [PromotionCriterion("latency of one row in ms", "999", "<= 250", met=False)], PromotionPolicy()
    )


def test_markdown_table_has_a_row_for_each_criterion(outcome):
    compared = replace(outcome, production=Version("v0.1.0", "a" * 40))
    text = as_markdown(compared, None, "b" * 40, "https://host/commit")
    assert "In production before: v0.1.0" in text
    assert text.startswith("# Not promoted")
    assert text.count("\n| ✅") == sum(one.met for one in outcome.criteria)
    assert "| ❌ | latency of one row in ms | 999 | <= 250 |" in text
    assert "[`bbbbbbbbbbbb`](https://host/commit)" in text


def test_commit_message_lists_every_criterion(outcome):
    text = str(outcome)
    assert text.startswith("Rejected (nothing in production yet): latency of one row in ms: 999")
    assert all(one.name in text for one in outcome.criteria)


def test_event_payload_is_json(outcome):
    payload = json.loads(json.dumps(as_payload(outcome, None, "b" * 40), allow_nan=False))
    assert payload["difference"] == pytest.approx(0.75)
    assert payload["version"] is None


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("https://github.com/someone/project.git", "https://github.com/someone/project/commit/abc"),
        ("git@gitlab.com:group/project.git", "https://gitlab.com/group/project/commit/abc"),
        ("https://user:secret@github.com/someone/project", "https://github.com/someone/project/commit/abc"),
        ("/srv/git/project.git", None),
    ],
)
def test_commit_page_has_no_credentials(toy, url, page):
    sh("git", "remote", "add", "origin", url, cwd=toy.root)
    assert toy.commit_page("abc") == page
