import pytest

from tests.columns_corpus import NOUNS
from tuneline.columns.choice import decide_columns
from tuneline.columns.doubts import NamedColumns
from tuneline.columns.profiles import profile
from tuneline.runtime.errors import DataError


def decided(columns, rows, **choices):
    return decide_columns(profile(columns, rows), rows, NamedColumns(**choices))


def rows_of(*makers, rows=40):
    result = []
    for row in range(rows):
        result.append(tuple(make(row) for make in makers))
    return result


def sentence(number):
    return f"a sentence of words, number {number}"


def number(number):
    return str(number)


def klass(number):
    return "ab"[number % 2]


def score(number):
    return f"{number / 7:.3f}"


def test_text_and_label_are_recognised_by_name():
    found = decided(["id", "text", "label"], rows_of(number, sentence, klass))
    assert (found.text_columns, found.label_column, found.task) == (("text",), "label", "classification")


@pytest.mark.parametrize(
    "pair",
    [
        ("sentence1", "sentence2"),
        ("Premise", "Hypothesis"),
        ("#1 String", "#2 String"),
        ("subject", "body"),
        ("title", "text"),
    ],
)
def test_pair_of_texts_is_recognised_by_name_and_keeps_its_order(pair):
    one, other = pair
    found = decided([other, "label", one], rows_of(sentence, klass, sentence))
    assert found.text_columns == (one, other)


def test_without_known_names_the_most_words_are_text_and_columns_of_few_values_are_a_doubt():
    def city(number):
        return ["Rome", "Oslo", "Lima"][number % 3]

    found = decided(["a", "b", "c", "d"], rows_of(number, city, sentence, klass))
    assert found.text_columns == ("c",)
    assert {answer.choice.label for answer in found.doubt.alternatives} == {("b",), ("d",)}


@pytest.mark.parametrize(
    ("label", "task"),
    [
        (klass, "classification"),
        (lambda number: str(number % 5 + 1), "classification"),
        (lambda number: f"{number % 2}.0", "classification"),
        (score, "regression"),
        (lambda number: str(number * 7 % 40), "regression"),
    ],
)
def test_the_task_follows_from_the_labels(label, task):
    assert decided(["text", "label"], rows_of(sentence, label)).task == task


def test_minus_one_is_a_class_where_other_rows_have_other_labels():
    """As in the stage download: a file of sentiments -1, 0 and 1 must not lose the negative ones."""
    (mixed,) = profile(["label"], [("0",), ("1",), ("-1",)])
    assert sorted(mixed.classes) == ["-1", "0", "1"]
    assert not mixed.is_unlabelled
    assert profile(["label"], [("-1",), ("",)])[0].is_unlabelled


def test_choices_of_the_user_override_the_detection():
    rows = rows_of(sentence, sentence, klass, lambda number: str(number % 3))
    found = decided(
        ["title", "text", "label", "stars"], rows, text=("title",), label=("stars",), task="regression"
    )
    assert (found.text_columns, found.label_column, found.task) == (("title",), "stars", "regression")
    assert all("named by you" in reason for reason in found.reasons[:3])


@pytest.mark.parametrize(
    ("columns", "makers", "choices", "message"),
    [
        (["text", "label"], (sentence, klass), {"label": ("queue",)}, "There is no column 'queue'"),
        (["text", "label"], (sentence, klass), {"text": ("txt",)}, "There is no column 'txt'"),
        (["a", "b"], (sentence, sentence), {}, "No column looks like a label"),
        (["a", "label"], (number, klass), {}, "No column looks like text"),
    ],
)
def test_missing_column_or_undecidable_role_is_refused(columns, makers, choices, message):
    with pytest.raises(DataError, match=message):
        decided(columns, rows_of(*makers), **choices)


def test_column_of_free_text_is_refused_as_label():
    rows = [(sentence(number), f"label {number}") for number in range(2000)]
    with pytest.raises(DataError, match="too many distinct values"):
        decided(["text", "label"], rows, label=("label",))


def test_lists_are_neither_text_nor_label():
    rows = [(sentence(number), "\x00nested", klass(number)) for number in range(10)]
    assert decided(["text", "label", "kind"], rows).label_column == "kind"


def pick(number, step):
    return NOUNS[(number * step + number // 12) % 12]


def fact(number):
    return (
        f"The {pick(number, 1)} of the old {pick(number, 5)} was sold to a {pick(number, 7)} in"
        f" {1900 + number}"
    )


def other_order(number):
    words = fact(number).split()
    return " ".join([*words[-2:], *words[:-2]])


def reply(number):
    return f"In the {pick(number, 7)} of the old {pick(number, 11)} a {pick(number, 5)} was sold to the king"


def cleaned(number):
    return " ".join(word for word in fact(number).lower().split() if word not in {"the", "of", "a"})


def person(number):
    return f"{['Anna', 'Bob', 'Carla'][number % 3]} {['Smith', 'Chen', 'Rossi', 'Silva'][number % 4]}"


def town(number):
    return ["New York", "Salt Lake City", "Oslo"][number % 3]


def date(number):
    return f"Mon Apr {number % 30:02d} 22:{number % 60:02d}:19 PDT 2009"


def address(number):
    return f"{number} Main Street, Flat {number % 7}, {town(number)}"


@pytest.mark.parametrize(
    ("makers", "texts"),
    [
        ((number, fact, other_order, klass), ["column_2", "column_3"]),
        ((klass, reply, fact), ["column_2", "column_3"]),
        ((klass, fact, number, reply), ["column_2", "column_4"]),
        ((klass, fact, cleaned), ["column_2"]),
        ((person, town, date, fact, klass), ["column_4"]),
        ((date, date, fact, klass), ["column_3"]),
        ((number, fact, address, klass), ["column_2"]),
    ],
)
def test_pair_without_names_is_recognised_and_other_columns_are_not_taken_for_one(makers, texts):
    found = decided([f"column_{position + 1}" for position in range(len(makers))], rows_of(*makers, rows=200))
    assert list(found.text_columns) == texts


def test_column_of_text_that_is_not_used_is_named():
    found = decided(["text", "address", "label"], rows_of(fact, address, klass, rows=200))
    assert "not used: 'address' (7 words)" in found.reasons[0]


def test_column_with_one_value_is_refused_as_a_label():
    with pytest.raises(DataError, match="'spam' in all 40 rows"):
        decided(["text", "label"], rows_of(sentence, lambda _: "spam"))


def test_column_that_numbers_the_rows_is_no_label_unless_it_is_named():
    with pytest.raises(DataError, match="'label' numbers"):
        decided(["text", "label"], rows_of(sentence, number))
    assert decided(["text", "label"], rows_of(sentence, number), label=("label",)).task == "regression"


def test_swapped_columns_are_refused():
    with pytest.raises(
        DataError,
        match="'label' has 40 distinct",
    ) as refused:
        decided(["text", "label"], rows_of(klass, sentence))
    assert "--label COLUMN --text COLUMN" in refused.value.hint
    found = decided(["text", "label"], rows_of(klass, sentence), label=("text",), text=("label",))
    assert (found.text_columns, found.label_column) == (("label",), "text")


def nothing(_):
    return None


@pytest.mark.parametrize(
    ("columns", "makers", "line"),
    [
        (["id", "text", "city", "label"], (number, sentence, town, klass), "not read: 'id', 'city'"),
        (["text", "label", "note"], (sentence, klass, nothing), "not read: 'note' (empty in all rows)"),
        (
            ["id", "note", "text", "label", "date"],
            (number, nothing, sentence, klass, nothing),
            "not read: 'id'; 'note', 'date' (empty in all rows)",
        ),
    ],
)
def test_columns_that_are_not_read_are_named_in_one_line(columns, makers, line):
    reasons = decided(columns, rows_of(*makers)).reasons
    assert [reason for reason in reasons if reason.startswith("not read")] == [line]
