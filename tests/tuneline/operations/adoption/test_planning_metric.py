from collections import Counter

import pytest

from tests.tuneline.cli.init.test_init import init
from tuneline.core.params.loading import load_params
from tuneline.operations.adoption.planning import metric_of_classes


@pytest.mark.parametrize(
    ("rows", "metric"),
    [
        ({"ham": 500, "spam": 500}, "accuracy"),
        ({"ham": 810, "spam": 190}, "matthews_correlation"),
        ({"a": 480, "b": 480, "c": 40}, "f1"),
        ({f"intent {number}": 130 for number in range(77)} | {"rare": 20}, "accuracy"),
    ],
)
def test_metric_follows_the_balance_of_the_classes(rows, metric):
    name, reason = metric_of_classes(Counter(rows))
    assert name == metric
    assert bool(reason) == (metric != "accuracy")


def write_rows(path, labels):
    lines = [f"a text of row {number} about {label},{label}" for number, label in enumerate(labels)]
    path.write_text("text,label\n" + "\n".join(lines) + "\n")
    return path


def test_rare_class_gives_a_metric_that_counts_it_with_the_reason(project):
    done = init(write_rows(project / "spam.csv", ["fraud"] * 30 + ["ok"] * 570), "--force")
    assert load_params().train.metric == "matthews_correlation"
    assert "'fraud' is 5.0% of the rows, and predicting 'ok' has an accuracy of 0.950" in done.output
    assert "train.metric: accuracy -> matthews_correlation" in done.output
    assert "test measures an accuracy" not in done.output
