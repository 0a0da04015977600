"""No file of the corpus is silently read wrongly: each is read rightly, or asked about, or refused."""

import json

import pytest

from tests.columns_corpus import KINDS, Columns, Kind, drawn
from tuneline.core.runtime.errors import DataError
from tuneline.rows.proposals.choice import decide_columns
from tuneline.rows.proposals.profiles import NESTED, count_columns, count_words
from tuneline.rows.proposals.readings import OpenQuestionError, UserChoices
from tuneline.rows.reading.label_values import label_number

DIRT = (0.0, 0.01, 0.05)
ASKED = {
    "categories of papers",
    "classes beside columns of 0 and 1",
    "codes",
    "columns of 0 and 1 behind others",
    "columns of TRUE",
    "columns that are mostly -1",
    "digits",
    "digits with spaces",
    "ids, at most two",
    "label_1 to label_3",
    "label_1 to label_3 with a word for none",
    "list of digits",
    "many numbers of categories",
    "money",
    "NumPy list of digits",
    "percent",
    "stars",
    "thousands",
    "thousands with points",
}
"""Kinds that somebody can read, and that are asked about or refused."""


def decision_on(columns: Columns, **choices):
    """Return the decision on a file."""
    return decide_columns(count_columns(columns, [columns]), UserChoices(**choices))


def decided(names, *makers, rows=40, **choices):
    """Return the decision on columns of which each makes a cell of the number of a row."""
    columns = {name: [make(row) for row in range(rows)] for name, make in zip(names, makers, strict=True)}
    return decision_on(columns, **choices)


def outcome(kind: Kind, columns: Columns) -> tuple[str, str]:
    """Return ``right``, ``asked``, ``refused`` or ``wrong``, and what was decided."""
    try:
        decision = decision_on(columns)
    except OpenQuestionError as asked:
        return "asked", asked.question
    except DataError as refused:
        return "refused", str(refused)
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
        is_right = is_right and label_number(text) == value
    if expected.doubt_only or not is_right:
        return "wrong", str(found)
    return "right", str(found)


FILES = [(60, 100), (400, 200)]
FILES += [pytest.param(rows, seed, marks=pytest.mark.slow) for rows in (60, 400) for seed in range(6)]
FILES += [pytest.param(5000, 0, marks=pytest.mark.slow)]
"""Rows and seed of a file of each kind."""


@pytest.mark.parametrize(("rows", "seed"), FILES)
@pytest.mark.parametrize("name", KINDS)
def test_file_is_read_rightly_or_asked_about(name, rows, seed):
    kind = KINDS[name]
    for dirt in DIRT:
        found, detail = outcome(kind, drawn(kind, seed, rows, dirt))
        assert found != "wrong", detail
        if rows >= 400 and not kind.expected.doubt_only and name not in ASKED:
            assert found == "right", detail


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("two columns of classes", "Several columns can be the label: "),
        ("classes beside columns of 0 and 1", "Several columns can be the label: "),
        ("headlines", "8 columns have texts"),
    ],
)
def test_each_answer_to_a_question_ends_it(name, question):
    columns = drawn(KINDS[name], seed=1, rows=400, dirt=0)
    with pytest.raises(OpenQuestionError) as asked:
        decision_on(columns)
    assert question in str(asked.value)
    assert len(asked.value.answers) > 1
    for answer in asked.value.answers:
        decision = decision_on(columns, **answer.choices)
        assert f"  tuneline init {answer.options}" in str(asked.value)
        assert decision.label_columns == answer.choices.get("label", decision.label_columns)
        assert decision.task == answer.choices.get("task", decision.task)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("objects", "JSON objects"),
        ("votes with semicolons", "labels of several people in a cell"),
        ("money", "numbers with commas, units or thousands"),
    ],
)
def test_what_cannot_be_read_is_refused(name, message):
    with pytest.raises(DataError, match=message) as refused:
        decision_on(drawn(KINDS[name], seed=1, rows=400, dirt=0))
    assert "--label COLUMN" in refused.value.hint


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        (lambda row: f"{row % 5} stars", "numbers with commas, units"),
        (lambda row: NESTED + f"[{row % 3}, {row % 3}]", "labels of several people"),
    ],
)
def test_column_that_cannot_be_read_leaves_the_others_to_choose_from(cells, problem):
    with pytest.raises(OpenQuestionError, match=f"'votes': {problem}.*, which cannot be read") as asked:
        decided(["text", "votes", "overall"], sentence, cells, lambda row: str(row % 5))
    assert "--label overall --task classification" in asked.value.hint


def test_chats_are_refused_with_the_form_that_is_read():
    chat = json.dumps([{"role": "user", "content": "Late?"}, {"role": "assistant", "content": "delivery"}])
    with pytest.raises(DataError, match="JSON objects") as refused:
        decided(["chat"], lambda row: f"{NESTED}{chat}{' ' * row}")
    assert '{"text": ..., "label": ...}' in refused.value.hint


def test_mistaken_labels_are_shown():
    decision = decision_on(drawn(KINDS["numbers with two decimals"], seed=1, rows=400, dirt=0.05))
    assert "! some labels do not fit that: 'unknown'" in decision.reasons


def test_separator_that_the_user_named_chooses_the_column_that_has_it():
    columns = drawn(KINDS["hashes"], seed=1, rows=60, dirt=0)
    columns["channel"] = ["mail", "phone"] * 30
    decision = decision_on(columns, separator="#")
    assert (decision.label_column, decision.sets.separator) == ("y", "#")


def number(row):
    return str(row)


def sentence(row):
    return f"a sentence of words, number {row}"


def klass(row):
    return "ab"[row % 2]


def town(row):
    return ["New York", "Salt Lake City", "Oslo"][row % 3]


def date(row):
    return f"2024-05-{row % 28 + 1:02}"


@pytest.mark.parametrize(
    "pair", [("sentence1", "sentence2"), ("Premise", "Hypothesis"), ("#1 String", "#2 String")]
)
def test_pair_of_texts_is_recognised_by_name_and_keeps_its_order(pair):
    one, other = pair
    decision = decided([other, "label", one], sentence, klass, sentence)
    assert decision.text_columns == (one, other)


def test_text_is_the_only_column_of_several_words_and_the_others_are_named():
    decision = decided(["id", "town", "day", "x", "label", "note"], number, town, date, sentence, klass, str)
    assert decision.text_columns == ("x",)
    assert "not read: 'id', 'town', 'day', 'note'" in decision.reasons


def test_name_of_a_class_is_a_label_and_name_of_somebody_who_labelled_is_none():
    names = ["text", "category_id", "category_name", "annotator_name"]
    decision = decided(names, sentence, lambda row: str(row % 2), klass, lambda row: ["ann", "bob"][row % 2])
    assert decision.label_columns == ("category_name",)


def test_two_columns_of_texts_are_asked_about():
    with pytest.raises(OpenQuestionError) as asked:
        decided(["text", "reply", "label"], sentence, sentence, klass)
    assert [answer.options for answer in asked.value.answers] == ["--text text", "--text text --text reply"]


@pytest.mark.parametrize(
    ("label", "task"),
    [
        (klass, "classification"),
        (lambda row: str(row % 5 + 1), "classification"),
        (lambda row: f"{row % 2}.0", "classification"),
        (lambda row: f"{row / 7:.3f}", "regression"),
        (lambda row: str(row * 7 % 40), "regression"),
    ],
)
def test_task_follows_from_the_labels(label, task):
    assert decided(["text", "label"], sentence, label).task == task


def test_choices_of_the_user_override_the_detection():
    decision = decided(
        ["title", "text", "label", "stars"],
        *(sentence, sentence, klass, lambda row: str(row % 3)),
        text=("title",),
        label=("stars",),
        task="regression",
    )
    assert (decision.text_columns, decision.label_column, decision.task) == (
        ("title",),
        "stars",
        "regression",
    )
    assert all("named by you" in reason for reason in decision.reasons[:3])


@pytest.mark.parametrize(
    ("names", "makers", "choices", "message"),
    [
        (["text", "label"], (sentence, klass), {"label": ("queue",)}, "There is no column 'queue'"),
        (["text", "label"], (sentence, klass), {"text": ("txt",)}, "There is no column 'txt'"),
        (["a", "b"], (sentence, sentence), {}, "No column looks like a label"),
        (["a", "label"], (number, klass), {}, "No column looks like text"),
        (["text", "label"], (sentence, lambda _: "spam"), {}, "'label' has one value in all rows"),
        (["text", "label"], (sentence, number), {}, "'label' numbers the rows"),
        (["text", "target"], (sentence, date), {}, "'target' has dates"),
        (["text", "label"], (klass, sentence), {}, "'label' has distinct values of several words"),
    ],
)
def test_column_that_is_missing_or_something_else_is_refused(names, makers, choices, message):
    with pytest.raises(DataError, match=message):
        decided(names, *makers, **choices)


def test_too_many_values_are_refused_as_label_and_numbers_of_rows_are_learnt_if_they_are_named():
    with pytest.raises(DataError, match="No column looks like a label"):
        decided(["text", "label"], sentence, lambda row: f"label {row}", rows=2000, label=("label",))
    assert decided(["text", "label"], sentence, number, label=("label",)).task == "regression"


def test_minus_one_is_a_class_where_other_rows_have_other_labels():
    """As in the stage download: a file of sentiments -1, 0 and 1 must not lose the negative ones."""
    columns = {"mixed": ["0", "1", "-1"], "missing": ["-1", "", None]}
    counted = count_columns(columns, [columns])
    assert sorted(counted["mixed"].values) == ["-1", "0", "1"]
    assert [counted[name].is_unlabelled for name in columns] == [False, True]


@pytest.mark.parametrize(
    ("content", "words"),
    [("a b", 2), ("", 0), ("naïve café, non ?", 3), ("包裹在哪里", 5), ("MRPC 包裹", 3)],
)
def test_characters_of_languages_without_spaces_count_as_words(content, words):
    assert count_words(content) == words
