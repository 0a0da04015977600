from pathlib import Path

import pytest
from pydantic import TypeAdapter

from stages.download.sample import QUEUES as QUEUE_NAMES
from stages.evaluate.behaviour import (
    AnyTest,
    Append,
    Case,
    Replace,
    apply_change,
    build_cases,
    negate,
    read_suite,
    spaced,
    typo,
)
from tests.conftest import ROOT
from tests.stages.evaluate.labelled_texts import labelled_texts
from tuneline.runtime.errors import ParamsError
from tuneline.tasks import Classification, Regression, task_with_names

QUEUES = Classification(("billing", "delivery"))
TEXTS = (["One", "Two", "Three"], ["It is late.", "It came.", "It was wrong."])
ROWS = labelled_texts(TEXTS, [0, 1, 1], QUEUES)
NUMBERS = labelled_texts(TEXTS, [0.5, 1, 2], Regression())
ONE_TEXT = labelled_texts(TEXTS[:1], [0, 1, 1], QUEUES)


def parse(**values):
    return TypeAdapter(AnyTest).validate_python({"name": "it", **values})


def test_rows_with_something_to_change_are_cases():
    assert build_cases(parse(kind="invariance", change="negate"), ROWS) == [
        Case(("One", "It is late."), ("One", "It is not late."), 0),
        Case(("Three", "It was wrong."), ("Three", "It was not wrong."), 2),
    ]


def test_where_selects_rows_by_label_name_or_id():
    for label in ("delivery", 1):
        cases = build_cases(parse(kind="invariance", change="lower_case", where=label), ROWS)
        assert [case.after[0] for case in cases] == ["two", "three"]


def test_templates_are_filled_with_every_combination():
    test = parse(
        kind="minimum_functionality",
        templates=[["help", "{x} and {x}, not {y}."]],
        fill={"x": ["a", "b"], "y": ["c", "{x}"], "z": ["unused"]},
        expect="billing",
    )
    assert [case.after for case in build_cases(test, ROWS)] == [
        ("Help", "A and a, not c."),
        ("Help", "A and a, not {x}."),
        ("Help", "B and b, not c."),
        ("Help", "B and b, not {x}."),
    ]
    assert build_cases(test, ROWS)[0].before is None


def test_cases_are_limited_and_evenly_spaced():
    assert spaced(10, 4) == [0, 2, 5, 7]
    assert spaced(2, 4) == [0, 1]
    cases = build_cases(parse(kind="invariance", change="upper_case", cases=2), ROWS)
    assert [case.before[0] for case in cases] == ["One", "Two"]


@pytest.mark.parametrize(
    ("values", "rows", "message"),
    [
        (
            {"kind": "invariance", "change": "typo", "where": "technical"},
            ROWS,
            "'technical' is not a class of the data. Its classes are 'billing', 'delivery'",
        ),
        ({"kind": "direction", "change": "typo", "moves": "up"}, ROWS, "label says whose probability moves"),
        ({"kind": "minimum_functionality", "expect": {"low": 0.0, "high": 1.0}}, ROWS, "expect is a class"),
        ({"kind": "invariance", "change": "typo", "where": 0}, NUMBERS, "It has none: this is a regression"),
        (
            {"kind": "invariance", "change": "typo", "templates": [["alone"]]},
            ROWS,
            "a template has 1 text(s), a row has 2",
        ),
        (
            {"kind": "invariance", "change": "swap_texts"},
            ONE_TEXT,
            "swap_texts needs rows of two texts",
        ),
    ],
)
def test_unsuitable_behaviour_test_is_an_error_with_its_name(values, rows, message):
    with pytest.raises(ParamsError) as caught:
        build_cases(parse(**values), rows)
    assert message in str(caught.value)
    assert "'it'" in str(caught.value)
    assert "null" in str(caught.value)


DATA = {
    "tickets": (2, task_with_names(QUEUE_NAMES)),
    "mrpc": (2, Classification(("not_equivalent", "equivalent"))),
    "sst2": (1, Classification(("negative", "positive"))),
    "stsb": (2, Regression()),
}


@pytest.mark.parametrize("name", DATA)
def test_suites_of_the_project_suit_their_data(name, monkeypatch):
    """Each test has cases: one without would pass without testing anything."""
    monkeypatch.chdir(ROOT)
    columns, task = DATA[name]
    if not Path(f"conf/behaviour/{name}.yaml").exists():
        pytest.skip(f"this project has no conf/behaviour/{name}.yaml")
    count = task.outputs * 2
    text = "On Monday the new movie was shown, and the invoice is late."
    texts = [[f"{text} {column} {row}." for row in range(count)] for column in range(columns)]
    labels = [row % task.outputs for row in range(count)]
    for test in read_suite(name).tests:
        assert build_cases(test, labelled_texts(texts, labels, task)), test.name


PAIR = ("Where is it?", "The parcel is missing.")


def test_typo_keeps_first_and_last_letters():
    assert typo("word") == "wrod"
    assert typo("aaaa 123 to") == "aaaa 123 to"


@pytest.mark.parametrize(
    ("text", "negated"),
    [
        ("The parcel is missing.", "The parcel is not missing."),
        ("It is not here", "It is not here"),
        ("This island", "This island"),
    ],
)
def test_negate_inserts_not_after_the_first_auxiliary(text, negated):
    assert negate(text) == negated


@pytest.mark.parametrize(
    ("change", "where", "changed"),
    [
        ("swap_texts", None, (PAIR[1], PAIR[0])),
        ("lower_case", None, ("where is it?", "the parcel is missing.")),
        ("no_final_punctuation", None, ("Where is it", "The parcel is missing")),
        ("negate", None, (PAIR[0], "The parcel is not missing.")),
        (Append(append="Thanks."), None, (PAIR[0], "The parcel is missing. Thanks.")),
        (Replace(replace={"is": "was", "parcel": "box"}), None, ("Where was it?", "The box was missing.")),
    ],
)
def test_change_applies_to_the_selected_texts(change, where, changed):
    assert apply_change(change, PAIR, where) == changed


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        ("swap_texts", ("a", "a")),
        ("typo", ("a b",)),
    ],
)
def test_row_with_nothing_to_change_is_skipped(change, texts):
    assert apply_change(change, texts, None) is None


def test_replace_escapes_regular_expressions():
    assert apply_change(Replace(replace={"a.b": "x"}), ("a.b acb",), None) == ("x acb",)
