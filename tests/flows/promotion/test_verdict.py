import json

import numpy as np
import pytest

from flows.promotion.gate import Figures, Predictions, decide
from flows.promotion.registry import Version
from flows.promotion.verdict import as_markdown, as_payload, as_text, commit_page
from flows.settings import PromotionPolicy
from tests.flows.conftest import sh


@pytest.fixture
def decision():
    labels = np.arange(400) % 4
    return decide(Predictions(labels, labels, labels * 0, ("a", "b", "c", "d")), Figures(1.0, 0.0, True, 1.0, 999.0), PromotionPolicy())


def test_the_table_has_a_row_for_each_criterion(decision):
    text = as_markdown(decision, Version("v0.1.0", "a" * 40), None, "b" * 40, "https://host/commit")
    assert text.startswith("# Not promoted")
    assert text.count("\n| ✅") == sum(one.met for one in decision.criteria)
    assert "| ❌ | latency of one row in ms | 999 | <= 250 |" in text
    assert "[`bbbbbbbbbbbb`](https://host/commit)" in text


def test_the_commit_message_has_every_figure(decision):
    text = as_text(decision, None)
    assert text.startswith("Rejected (nothing in production yet): latency of one row in ms: 999")
    assert all(one.name in text for one in decision.criteria)


def test_the_events_figures_are_json(decision):
    payload = json.loads(json.dumps(as_payload(decision, None, None, "b" * 40), allow_nan=False))
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
def test_a_commit_is_linked_where_it_has_a_page_and_no_secret_goes_along(toy, url, page):
    sh("git", "remote", "add", "origin", url, cwd=toy.root)
    assert commit_page(toy, "abc") == page
