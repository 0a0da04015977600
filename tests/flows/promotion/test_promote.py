import json
from dataclasses import replace

import numpy as np
import pytest

from flows.promotion.gate import Predictions, decide
from flows.promotion.promote import GateResult, as_markdown, as_payload, commit_page
from flows.settings.promotion import PromotionPolicy
from tests.flows.conftest import sh
from tests.flows.promotion.measurements import GOOD
from tuneline.registry import Version


@pytest.fixture
def outcome() -> GateResult:
    labels = np.arange(400) % 4
    rows = Predictions(labels, labels, labels * 0, ("a", "b", "c", "d"))
    return GateResult(decide(rows, replace(GOOD, latency_ms=999.0), PromotionPolicy()), None)


def test_markdown_table_has_a_row_for_each_criterion(outcome):
    compared = replace(outcome, production=Version("v0.1.0", "a" * 40))
    text = as_markdown(compared, None, "b" * 40, "https://host/commit")
    assert "In production before: v0.1.0" in text
    assert text.startswith("# Not promoted")
    assert text.count("\n| ✅") == sum(one.met for one in outcome.decision.criteria)
    assert "| ❌ | latency of one row in ms | 999 | <= 250 |" in text
    assert "[`bbbbbbbbbbbb`](https://host/commit)" in text


def test_commit_message_lists_every_criterion(outcome):
    text = str(outcome)
    assert text.startswith("Rejected (nothing in production yet): latency of one row in ms: 999")
    assert all(one.name in text for one in outcome.decision.criteria)


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
    assert commit_page(toy, "abc") == page
