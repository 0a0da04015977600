"""No file of the corpus is silently read wrongly: each is read rightly, or doubted, or refused."""

from collections import Counter

import pytest

from tests.columns_corpus import KINDS, Columns, Kind, drawn
from tuneline.columns.choice import decide_columns
from tuneline.columns.doubts import NamedColumns
from tuneline.columns.profiles import profile, sampling
from tuneline.readers.label_values import label_number
from tuneline.runtime.errors import DataError

DIRT = (0.0, 0.01, 0.05)
SEEDS = 7
"""With three sizes and three shares of dirt, more than 1,000 files of all kinds that are not the same."""


def decision_on(columns: Columns):
    """Return the decision on a file."""
    sample = []
    profiles = profile(list(columns), sampling(zip(*columns.values(), strict=True), sample))
    return decide_columns(profiles, sample)


def outcome(kind: Kind, columns: Columns) -> tuple[str, str]:
    """Return ``right``, ``doubt``, ``refused`` or ``wrong``, and what was decided."""
    try:
        decision = decision_on(columns)
    except DataError as refused:
        return "refused", str(refused)
    if decision.doubt is not None:
        return "doubt", decision.doubt.problem

    expected = kind.expected
    sets = decision.sets
    found = (
        sorted(decision.label_columns),
        decision.task,
        sets and sets.layout,
        sets and sets.separator,
    )
    is_right = found == (sorted(expected.label), expected.task, expected.layout, expected.separator)
    if expected.number is not None:
        text, value = expected.number
        is_right = is_right and label_number(text, decision.reading.numbers) == value
    if expected.doubt_only or not is_right:
        return "wrong", str(found)
    return "right", str(found)


@pytest.mark.parametrize("name", KINDS)
def test_file_is_read_rightly_or_doubted(name):
    kind = KINDS[name]
    for dirt in DIRT:
        found, detail = outcome(kind, drawn(kind, seed=100, rows=60, dirt=dirt))
        assert found != "wrong", detail
        large, detail = outcome(kind, drawn(kind, seed=200, rows=400, dirt=dirt))
        assert large == ("right" if can_be_read(kind, large) else large), detail


def can_be_read(kind: Kind, found: str) -> bool:
    """Return True if a file of the kind can be read without a question."""
    return not kind.expected.doubt_only and found != "doubt"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_no_file_of_a_thousand_is_silently_read_wrongly(capsys):
    table: dict[str, Counter[str]] = {}
    wrong = []
    for name, kind in KINDS.items():
        counts = table.setdefault(name, Counter())
        for rows in (60, 400, 5000):
            for dirt in DIRT:
                for seed in range(SEEDS if rows < 5000 else 1):
                    found, detail = outcome(kind, drawn(kind, seed, rows, dirt))
                    counts[found] += 1
                    if found == "wrong":
                        wrong.append((name, rows, dirt, seed, detail))
    with capsys.disabled():
        for name, counts in table.items():
            print(f"{name:36}", dict(counts))
    assert sum(map(Counter.total, table.values())) > 1000
    assert not wrong


@pytest.mark.parametrize(
    ("name", "questions"),
    [
        ("two columns of classes", "'channel'; 'priority'"),
        ("columns that are mostly -1", "empty in"),
        ("headlines", "8 columns have texts of the same kind"),
        ("stars", "'y' can be read in several ways"),
    ],
)
def test_doubt_names_what_can_be_read_in_several_ways(name, questions):
    decision = decision_on(drawn(KINDS[name], seed=1, rows=400, dirt=0))
    found = decision.doubt.problem
    if "; " in questions:
        assert set(questions.split("; ")) <= set(found.partition(": ")[2].split("; "))
    else:
        assert questions in found


@pytest.mark.parametrize(
    "name", ["two columns of classes", "headlines", "stars", "columns that are mostly -1"]
)
def test_each_answer_to_a_doubt_ends_it(name):
    columns = drawn(KINDS[name], seed=1, rows=400, dirt=0)
    doubt = decision_on(columns).doubt
    sample = []
    profiles = profile(list(columns), sampling(zip(*columns.values(), strict=True), sample))
    for answer in doubt.alternatives:
        decided = decide_columns(profiles, sample, answer.choice)
        assert decided.doubt is None
        if answer.choice.label:
            assert decided.label_columns == answer.choice.label
            assert decided.task == answer.choice.task


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("objects", "'id', 'name'"),
        ("choices", "'choices'"),
        ("only a column that is mostly empty", ""),
        ("columns of annotators", "the labels of 3 people"),
        ("columns of annotators, 0 and 1", "the labels of 3 people"),
        ("columns of raters", "mean(axis=1)"),
        ("votes with commas", "labels of several people in a cell"),
        ("objects beside names", "'choices'"),
        ("label_1 to label_3 of people", "the labels of 3 people"),
    ],
)
def test_what_cannot_be_read_is_refused(name, keys):
    with pytest.raises(DataError) as refused:
        decision_on(drawn(KINDS[name], seed=1, rows=400, dirt=0))
    assert keys in str(refused.value)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("columns with one 1 in each row", "exactly one label"),
        ("label_1 to label_3 with a word for none", "'NONE' several times"),
    ],
)
def test_what_may_be_wrong_with_labels_that_can_be_read_is_said(name, hint):
    decision = decision_on(drawn(KINDS[name], seed=1, rows=400, dirt=0))
    assert hint in decision.reading.hint
    assert f"! {decision.reading.hint}" in decision.reasons


def test_list_of_one_label_in_each_row_is_said():
    columns = drawn(KINDS["five classes"], seed=1, rows=60, dirt=0)
    columns["y"] = [f"['{cell}']" for cell in columns["y"]]
    assert "exactly one label" in decision_on(columns).reading.hint
    columns["y"][0] = "[]"
    assert decision_on(columns).reading.hint == ""


def test_mistaken_labels_are_shown():
    decision = decision_on(drawn(KINDS["thousands"], seed=1, rows=400, dirt=0.05))
    assert "! some labels do not fit that: 'unknown'" in decision.reasons


def test_separator_that_the_user_named_chooses_the_column_that_has_it():
    columns = drawn(KINDS["hashes"], seed=1, rows=60, dirt=0)
    columns["channel"] = ["mail", "phone"] * 30
    sample = []
    profiles = profile(list(columns), sampling(zip(*columns.values(), strict=True), sample))
    decision = decide_columns(profiles, sample, NamedColumns(separator="#"))
    assert (decision.label_column, decision.sets.separator, decision.doubt) == ("y", "#", None)
