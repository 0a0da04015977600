"""Answers by kind of task, and how sure they are."""

import numpy as np
import pytest

from tuneline.judge.decisions.rule import CostRule, answers_of
from tuneline.model.tasks import Classification, Multilabel

LOGITS = np.random.default_rng(0).normal(0, 2, (200, 3)).astype(np.float32)
TASKS = {
    "classification": Classification(("a", "b", "c"), temperature=1.7),
    "multilabel": Multilabel(("a", "b", "c"), thresholds=(0.3, 0.5, 0.6), temperatures=(0.5, 1.0, 2.0)),
}


@pytest.mark.parametrize("kind", TASKS)
def test_without_costs_answers_are_predictions(kind):
    task = TASKS[kind]
    answers = answers_of(task, task.scores(LOGITS), None)
    assert (answers.labels == task.predictions(LOGITS)).all()
    assert not answers.too_dear.any()


def test_answer_that_costs_least_is_as_sure_as_its_class():
    task = TASKS["classification"]
    rule = CostRule.of({"c": {"a": 9.0, "b": 9.0}}, 1.0, task.names)
    scores = task.scores(LOGITS)
    answers = answers_of(task, scores, rule)
    assert (answers.labels != scores.argmax(axis=1)).any()
    assert (answers.confidence == scores[np.arange(200), answers.labels]).all()
    assert (answers.too_dear == rule.abstains(scores)).all()
