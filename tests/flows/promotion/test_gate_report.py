from dataclasses import replace

import numpy as np
import pytest

from flows.promotion.evidence import PairedPredictions, PromotionCriterion
from flows.promotion.gate import PromotionDecision, as_markdown, decide_promotion
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
    text = as_markdown(compared, None, "b" * 40)
    assert "In production before: v0.1.0" in text
    assert text.startswith("# Not promoted")
    assert text.count("\n| ✅") == sum(one.met for one in outcome.criteria)
    assert "| ❌ | latency of one row in ms | 999 | <= 250 |" in text
    assert "`bbbbbbbbbbbb`" in text
