"""Each check detects its own violation: a change of valid data must fail exactly the check of the same
name."""

import random
import re
from operator import attrgetter

import pytest

from tests.tuneline.checks.data import FOREIGN, WORDS, Data, sentence, tokenizer_of, words_of
from tuneline.checks.analysis.distributions import Distribution
from tuneline.checks.definitions import CHECK_TABLE
from tuneline.checks.results import Profile, Words
from tuneline.checks.tables import derive_tables
from tuneline.core.params.evaluate import ERROR_CHECKS, WARNING_CHECKS
from tuneline.model.tasks import Classification


def failed_checks(results) -> set[str]:
    return {result.check for result in results.record.checks if result.status != "passed"}


def test_valid_data_passes_every_check(data, check):
    results = check(data)
    assert failed_checks(results) == set()
    assert set(results.record.not_run) == {
        "promoted_rows",
        "promoted_labels",
        "promoted_lengths",
        "promoted_vocabulary",
    }


def rows(data: Data) -> None:
    for table in (data.raw["validation"], data.tokenized["validation"]):
        for name in table:
            del table[name][19:]


def blank_text(data: Data) -> None:
    """The tokenizer drops such texts: empty_rows fails, too."""
    for texts in (data.raw["test"]["one"], data.raw["test"]["two"]):
        texts[25] = "\u00a0" * len(texts[25])
    data.tokenize()


def control_characters(data: Data) -> None:
    data.raw["train"]["one"][8] += "\x07"


def broken_encoding(data: Data) -> None:
    data.raw["validation"]["one"][1] += " caf\ufffd"
    data.raw["validation"]["two"][2] += " CafÃ©"
    data.tokenize()


def length_outliers(data: Data) -> None:
    rng = random.Random(1)
    for row in (0, 1, 2):
        data.raw["train"]["one"][row] = sentence(rng, shortest=400, longest=400)
    data.tokenize()


def label_set(data: Data) -> None:
    for table in (data.raw["train"], data.tokenized["train"]):
        table["labels"][4] = 3


def absent_classes(data: Data) -> None:
    for table in (data.raw["train"], data.tokenized["train"]):
        table["labels"] = [label % 2 for label in table["labels"]]


def rare_classes(data: Data) -> None:
    for table in (data.raw["validation"], data.tokenized["validation"]):
        table["labels"] = [label % 2 for label in table["labels"]]


def class_names(data: Data) -> None:
    data.labels = Classification(("no", "yes", "Yes."))


def class_balance(data: Data) -> None:
    for split in data.raw:
        for table in (data.raw[split], data.tokenized[split]):
            table["labels"] = [
                1 if row % 20 == 1 else 2 if row % 25 == 12 else 0 for row in range(len(table["labels"]))
            ]


def _copy(data: Data, split: str, number: int, label: int) -> None:
    table = data.raw[split]
    for row in range(number):
        for name in data.columns:
            table[name][100 + row] = table[name][row].upper()
        table["labels"][row] = 0
        table["labels"][100 + row] = label
    data.tokenize()


def conflicting_labels(data: Data) -> None:
    _copy(data, "train", 5, label=1)


def duplicates(data: Data) -> None:
    _copy(data, "train", 11, label=0)


def leakage(data: Data) -> None:
    for row in (10, 20):
        for name, other in (("one", "two"), ("two", "one")):
            data.raw["test"][name][row] = data.raw["train"][other][row].replace(" ", "  ")
    data.tokenize()


def near_duplicates(data: Data) -> None:
    for row in range(16):
        for name in data.columns:
            data.raw["test"][name][row] = data.raw["train"][name][row]
        data.raw["test"]["one"][row] = data.raw["test"]["one"][row].replace(" ", " other ", 1)
    data.tokenize()


def revealing_words(data: Data) -> None:
    """One class comes with the signature of a form."""
    table = data.raw["train"]
    table["one"] = [
        f"{text} {WORDS[0]} {WORDS[1]}" if label == 1 else text
        for text, label in zip(table["one"], table["labels"], strict=True)
    ]
    data.tokenize()


def row_count(data: Data) -> None:
    for values in data.tokenized["test"].values():
        values.pop()


def _ids(data: Data, row: int = 3) -> list[int]:
    return data.tokenized["test"]["input_ids"][row]


def ids_in_vocabulary(data: Data) -> None:
    _ids(data)[4] = 100_000


def special_tokens(data: Data) -> None:
    _ids(data)[-1] = _ids(data)[-2]


def max_length(data: Data) -> None:
    for name in ("input_ids", "attention_mask", "token_type_ids"):
        row = data.tokenized["test"][name][3]
        row[2:2] = [row[2]] * 60


def column_lengths(data: Data) -> None:
    data.tokenized["test"]["attention_mask"][3].pop()


def attention_mask(data: Data) -> None:
    data.tokenized["test"]["attention_mask"][3][1] = 0


def token_type_ids(data: Data) -> None:
    data.tokenized["test"]["token_type_ids"][3][-1] = 0


def token_labels(data: Data) -> None:
    data.tokenized["train"]["labels"][:2] = [1, 0]


def empty_rows(data: Data) -> None:
    cls, sep = _ids(data)[0], _ids(data)[-1]
    for name, row in (
        ("input_ids", [cls, sep, sep]),
        ("attention_mask", [1, 1, 1]),
        ("token_type_ids", [0, 0, 1]),
    ):
        data.tokenized["test"][name][3] = row


def unknown_rate(data: Data) -> None:
    for table in data.raw.values():
        for name in data.columns:
            table[name] = [f"Ω {text[5:]} Ω" for text in table[name]]
    data.tokenize()


def word_pieces(data: Data) -> None:
    """Let the tokenizer know letters, and no words of several ones."""
    data.tokenizer = tokenizer_of("abdeiklmnoprstux")
    data.tokenize()


def truncation_rate(data: Data) -> None:
    data.set_params(lambda values: values["tokenize"].update(max_length=20))
    data.tokenize()


def label_drift(data: Data) -> None:
    rng, table = random.Random(5), data.raw["test"]
    table["labels"] = [0 if row % 3 else label for row, label in enumerate(table["labels"])]
    for name in data.columns:
        table[name] = [sentence(rng, words_of(label, 3)) for label in table["labels"]]
    data.tokenize()


def length_drift(data: Data) -> None:
    rng = random.Random(2)
    for name in data.columns:
        data.raw["test"][name] = [
            sentence(rng, words_of(label, 3), 18, 24) for label in data.raw["test"]["labels"]
        ]
    data.tokenize()


def vocabulary_overlap(data: Data) -> None:
    rng = random.Random(3)
    for name in data.columns:
        data.raw["validation"][name] = [
            f"{sentence(rng, FOREIGN, 5, 7)} {sentence(rng, words_of(label, 3), 3, 6)}"
            for label in data.raw["validation"]["labels"]
        ]
    data.tokenize()


name_of = attrgetter("__name__")


def promoted_rows(profile: Profile) -> None:
    change(profile, "train", rows=500)


def promoted_labels(profile: Profile) -> None:
    change(profile, "train", labels=Distribution((0.0, 1.0), (20, 160, 20)))


def promoted_lengths(profile: Profile) -> None:
    longer = profile.splits["test"].characters
    change(profile, "test", characters=Distribution(tuple(2 * edge for edge in longer.edges), longer.counts))


def promoted_vocabulary(profile: Profile) -> None:
    change(profile, "validation", words=Words(hashes=[f"{value:016x}" for value in range(500)], known=1.0))


def change(profile: Profile, split: str, **changes) -> None:
    profile.splits[split] = profile.splits[split].model_copy(update=changes)


PROMOTED_VIOLATIONS = [promoted_rows, promoted_labels, promoted_lengths, promoted_vocabulary]


TOGETHER = [
    (
        length_drift,
        class_balance,
        control_characters,
        rows,
        rare_classes,
        row_count,
        column_lengths,
    ),
    (
        label_drift,
        absent_classes,
        broken_encoding,
        length_outliers,
        label_set,
        class_names,
        near_duplicates,
        blank_text,
        empty_rows,
    ),
    (
        word_pieces,
        truncation_rate,
        unknown_rate,
        duplicates,
        conflicting_labels,
        leakage,
    ),
    (
        vocabulary_overlap,
        revealing_words,
        ids_in_vocabulary,
        special_tokens,
        attention_mask,
        token_type_ids,
        token_labels,
        max_length,
    ),
]
"""Violations that do not touch each other, in the order in which they are made: a run of all checks takes a
second."""


@pytest.mark.parametrize("violations", TOGETHER, ids=lambda violations: name_of(violations[0]))
def test_violations_fail_their_own_checks_only(violations, data, check):
    for violate in violations:
        violate(data)
    assert failed_checks(check(data)) == {violate.__name__ for violate in violations}


def test_changes_from_promoted_data_fail_their_own_checks_only(data, check, promoted):
    for violate in PROMOTED_VIOLATIONS:
        violate(promoted)
    assert failed_checks(check(data, promoted)) == {violate.__name__ for violate in PROMOTED_VIOLATIONS}


@pytest.fixture
def promoted(data, tmp_path_factory):
    """Return the profile of the valid data itself."""
    derived = derive_tables(data.params, data.write(tmp_path_factory.mktemp("promoted") / "data"), None)
    return Profile(version=1, labels=derived.labels.names, splits=dict(derived.profiles))


def test_data_equal_to_promoted_data_passes(data, check, promoted):
    results = check(data, promoted)
    assert failed_checks(results) == set()
    assert results.record.not_run == []


def test_every_check_has_a_severity_and_a_violation():
    tested = {violate.__name__ for violations in TOGETHER for violate in violations}
    tested |= {violate.__name__ for violate in PROMOTED_VIOLATIONS}
    assert tested == set(CHECK_TABLE) == {*ERROR_CHECKS, *WARNING_CHECKS}
    assert not set(ERROR_CHECKS) & set(WARNING_CHECKS)


def test_every_check_is_documented(root):
    page = (root / "docs/data-checks.md").read_text(encoding="utf-8")
    assert set(CHECK_TABLE) <= set(re.findall(r"`(\w+)`", page))


def test_one_row_of_a_small_split_passes_where_a_share_is_tolerated(data, check):
    """1 of 60 rows is 1.67 %, more than the limit of 1 %."""
    data.raw["validation"]["one"][1] += " caf\ufffd"
    data.raw["validation"]["two"][1] += " caf\ufffd"
    data.tokenize()
    results = check(data)
    broken = [entry for entry in results.record.checks if entry.check == "broken_encoding"]
    assert [(entry.split, entry.status, entry.failing) for entry in broken if entry.failing] == [
        ("validation", "passed", 1)
    ]
    assert {entry.allowed for entry in broken} == {"at most 1 %, or 1 row"}
    assert failed_checks(results) == set()


def test_severity_of_a_check_can_be_changed(data, check):
    data.raw["train"]["one"][8] += "\x07"
    data.raw["train"]["two"][3] = data.raw["train"]["one"][3] = " "
    severities = {"control_characters": "error", "blank_text": "warning"}
    data.set_params(lambda values: values["validate"].update(severity=severities))
    results = check(data, only=["control_characters", "blank_text"])
    assert [error.check for error in results.errors] == ["control_characters"]
    assert failed_checks(results) == {"control_characters", "blank_text"}
