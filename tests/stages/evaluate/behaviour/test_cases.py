import numpy as np
import pytest
from pydantic import TypeAdapter

from stages.download.tickets.generator import QUEUES as QUEUE_NAMES
from stages.evaluate.behaviour.cases import Case, Rows, build_cases, spaced
from stages.evaluate.behaviour.suite import AnyTest, read_suite
from tests.conftest import ROOT
from tuneline.errors import ParamsError
from tuneline.files.schemas import LabelSchema

QUEUES = LabelSchema(("billing", "delivery"))
ROWS = Rows((["One", "Two", "Three"], ["It is late.", "It came.", "It was wrong."]), np.array([0, 1, 1]), QUEUES)
NUMBERS = Rows(ROWS.texts, np.array([0.5, 1, 2], dtype=np.float32), LabelSchema(None))


def parse(**values):
    return TypeAdapter(AnyTest).validate_python({"name": "it", **values})


def test_rows_of_the_split_are_cases_where_there_is_something_to_change():
    assert build_cases(parse(kind="invariance", change="negate"), ROWS) == [
        Case(("One", "It is late."), ("One", "It is not late.")),
        Case(("Three", "It was wrong."), ("Three", "It was not wrong.")),
    ]


def test_rows_can_be_chosen_by_label_name_or_id():
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


def test_cases_are_bounded_and_spread_over_all():
    assert spaced(list(range(10)), 4) == [0, 2, 5, 7]
    assert spaced([1, 2], 4) == [1, 2]
    assert len(build_cases(parse(kind="invariance", change="upper_case", cases=2), ROWS)) == 2


@pytest.mark.parametrize(
    ("values", "rows", "said"),
    [
        (
            {"kind": "invariance", "change": "typo", "where": "technical"},
            ROWS,
            "'technical' is no class of the data. Its classes are 'billing', 'delivery'",
        ),
        ({"kind": "invariance", "change": "typo", "where": 2}, ROWS, "2 is no class"),
        ({"kind": "direction", "change": "typo", "label": "x", "moves": "up"}, ROWS, "label: 'x' is no class"),
        ({"kind": "direction", "change": "typo", "moves": "up"}, ROWS, "label says whose probability moves"),
        ({"kind": "direction", "change": "typo", "label": 0, "moves": "up"}, NUMBERS, "label says whose probability moves"),
        ({"kind": "minimum_functionality", "expect": "x", "change": "typo"}, ROWS, "expect: 'x' is no class"),
        ({"kind": "minimum_functionality", "expect": {"low": 0.0, "high": 1.0}}, ROWS, "expect is a class"),
        ({"kind": "minimum_functionality", "expect": 1}, NUMBERS, "expect is a class, or low and high"),
        ({"kind": "invariance", "change": "typo", "where": 0}, NUMBERS, "It has none: this is a regression"),
        ({"kind": "invariance", "change": "typo", "templates": [["alone"]]}, ROWS, "a template has 1 text(s), a row has 2"),
        ({"kind": "invariance", "change": "typo", "templates": [["a", "{b}"]]}, ROWS, "nothing to fill in for {b}"),
        ({"kind": "invariance", "change": "swap_texts"}, Rows(ROWS.texts[:1], ROWS.labels, QUEUES), "swap_texts needs rows of two texts"),
    ],
)
def test_a_test_that_does_not_suit_the_data_is_named(values, rows, said):
    with pytest.raises(ParamsError) as caught:
        build_cases(parse(**values), rows)
    assert said in str(caught.value)
    assert "'it'" in str(caught.value)
    assert "null" in str(caught.value)


DATA = {
    "tickets": (2, LabelSchema(QUEUE_NAMES)),
    "mrpc": (2, LabelSchema(("not_equivalent", "equivalent"))),
    "sst2": (1, LabelSchema(("negative", "positive"))),
    "stsb": (2, LabelSchema(None)),
}


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "conf/behaviour").glob("*.yaml")))
def test_the_files_of_the_project_suit_the_data_of_their_tasks(name, monkeypatch):
    """Each test of them has cases: one without would look like a test and be none."""
    monkeypatch.chdir(ROOT)
    columns, label_schema = DATA[name]
    count = label_schema.outputs * 2
    text = "On Monday the new movie was shown, and the invoice is late."
    texts = [[f"{text} {column} {row}." for row in range(count)] for column in range(columns)]
    labels = np.arange(count, dtype=np.float32 if label_schema.is_regression else np.int64) % label_schema.outputs
    for test in read_suite(name).tests:
        assert build_cases(test, Rows(texts, labels, label_schema)), test.name
