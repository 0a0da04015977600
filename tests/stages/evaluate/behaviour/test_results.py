from dataclasses import replace

import numpy as np

from stages.evaluate.behaviour import Suite, run_suite, violations_of
from tests.stages.evaluate.labelled_texts import labelled_texts
from tuneline.tasks import Classification, Multilabel, Regression

QUEUES = Classification(("billing", "delivery"))
TEXTS = (["the invoice is wrong", "the parcel is late", "parcel and invoice"],)
ROWS = labelled_texts(TEXTS, [0, 1, 1], QUEUES)
NUMBERS = labelled_texts(TEXTS, [0.0, 1.0, 2.0], Regression())


SETS = labelled_texts(TEXTS, [[1, 0], [0, 1], [1, 1]], Multilabel(QUEUES.names))


def by_both_words(texts):
    """Return logits of both labels, above 0 for each of the two words that is in a text."""
    return 2 * by_words(texts) - 1


def by_words(texts):
    """Return logits that count "invoice" (billing) and "parcel" (delivery), case-sensitively."""
    return np.array([[text.count("invoice"), text.count("parcel")] for (text,) in texts], dtype=np.float32)


def by_length(texts):
    """Return the number of characters, as a regression."""
    return np.array([[len(text)] for (text,) in texts], dtype=np.float32)


def run(rows, model, **test):
    (entry,) = run_suite(Suite.model_validate({"tests": [{"name": "it", **test}]}), rows, model)
    return entry


def test_invariance_passes_if_the_prediction_does_not_change():
    entry = run(ROWS, by_words, kind="invariance", change="upper_case")
    assert (entry.cases, entry.passed) == (3, 2)
    assert [failure.model_dump() for failure in entry.failures] == [
        {
            "before": {"texts": ["the parcel is late"], "prediction": "delivery"},
            "after": {"texts": ["THE PARCEL IS LATE"], "prediction": "billing"},
        }
    ]
    assert run(ROWS, by_words, kind="invariance", change={"append": "thanks"}).pass_rate == 1.0


def test_direction_passes_if_the_probability_moves_that_way():
    more = {"kind": "direction", "change": {"append": "parcel"}, "label": "delivery"}
    assert run(ROWS, by_words, **more, moves="up").pass_rate == 1.0
    assert run(ROWS, by_words, **more, moves="down").pass_rate == 0.0
    assert run(ROWS, by_words, **more, moves="down", tolerance=0.3).passed == 3
    assert run(ROWS, by_words, **more, moves="down", tolerance=0.2).passed == 1


def test_minimum_functionality_passes_if_the_prediction_is_right():
    test = {
        "kind": "minimum_functionality",
        "templates": [["{x} is wrong"]],
        "fill": {"x": ["invoice", "parcel", "lamp"]},
    }
    entry = run(ROWS, by_words, **test, expect="delivery")
    assert (entry.cases, entry.passed) == (3, 0)
    assert [failure.after.prediction for failure in entry.failures] == ["billing"] * 3
    entry = run(
        ROWS, lambda texts: by_words([(text.lower(),) for (text,) in texts]), **test, expect="delivery"
    )
    assert entry.passed == 1


def test_regression_tests_have_tolerances_and_ranges():
    longer = {"kind": "invariance", "change": {"append": "xx"}}
    assert run(NUMBERS, by_length, **longer, tolerance=2.0).passed == 0
    assert run(NUMBERS, by_length, **longer, tolerance=3.0).passed == 3
    assert run(NUMBERS, by_length, kind="direction", change={"append": "xx"}, moves="up").passed == 3
    assert (
        run(NUMBERS, by_length, kind="minimum_functionality", expect={"low": 18.0, "high": 18.0}).passed == 2
    )
    entry = run(NUMBERS, by_length, kind="minimum_functionality", expect={"low": 0.0, "high": 1.0})
    assert entry.failures[0].after.prediction == 20.0


def test_invariance_of_several_labels_keeps_all_of_them():
    assert run(SETS, by_both_words, kind="invariance", change={"append": "thanks"}).pass_rate == 1.0
    entry = run(SETS, by_both_words, kind="invariance", change={"append": "invoice"})
    assert (entry.cases, entry.passed) == (3, 2)
    assert entry.failures[0].before.prediction == "delivery"
    assert entry.failures[0].after.prediction == "billing;delivery"


def test_expected_label_is_among_the_predicted_ones_by_its_threshold():
    test = {"kind": "minimum_functionality", "templates": [["the invoice of the parcel"], ["the invoice"]]}
    assert run(SETS, by_both_words, **test, expect="billing").passed == 2
    entry = run(SETS, by_both_words, **test, expect="delivery")
    assert entry.passed == 1
    assert entry.failures[0].after.prediction == "billing"
    strict = labelled_texts(TEXTS, [[1, 0]] * 3, Multilabel(SETS.task.names, thresholds=(0.9, 0.5)))
    entry = run(strict, by_both_words, **test, expect="billing")
    assert entry.passed == 0
    assert entry.failures[1].after.prediction == "", "no label"


def test_pass_rate_below_its_minimum_is_a_violation():
    kept = run(ROWS, by_words, kind="invariance", change="upper_case", min_pass_rate=0.6)
    missed = run(ROWS, by_words, kind="invariance", change="upper_case", min_pass_rate=0.7)
    nothing = run(ROWS, by_words, kind="invariance", change={"replace": {"unheard": "of"}}, min_pass_rate=0.5)
    assert violations_of([kept]) == []
    assert violations_of([missed, nothing]) == [
        "it: 2 of 3 cases passed; min_pass_rate is 0.7",
        "it: no case to test; min_pass_rate is 0.5",
    ]


def test_copies_of_a_text_are_one_case_for_the_interval():
    labels = [0, 1] * 20
    texts = ([f"text {row}" for row in range(40)],)
    alone = labelled_texts(texts, labels, QUEUES)
    copies = replace(alone, clusters=np.arange(40) // 10)
    test = {"kind": "minimum_functionality", "expect": "billing"}

    def first_half(rows):
        return np.array([[int(text.split()[1]) < 20, 0.5] for (text,) in rows], np.float32)

    as_rows = run(alone, first_half, **test)
    as_copies = run(copies, first_half, **test)
    assert as_rows.pass_rate == as_copies.pass_rate == 0.5
    assert as_copies.low < as_rows.low - 0.1
    assert as_copies.high > as_rows.high + 0.1
