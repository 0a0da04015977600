"""The checks of tokenized rows whose long texts lose their middle, or are divided into windows."""

import random

import pytest

from tests.tuneline.checks.data import WORDS, Data, good_data, sentence
from tuneline.checks.definitions import CHECK_TABLE

COMPOUNDS = ["bademunape"] * len(WORDS)
"""A word that is several tokens, so that windows begin within it."""


def failed_checks(results) -> set[str]:
    """Return the checks of columns and of tokenized rows that failed."""
    failed = {result.check for result in results.record.checks if result.status != "passed"}
    return {check for check in failed if CHECK_TABLE[check].table == "tokenized"}


def long_data(long_text: str, long_rows: int = 3, single: bool = False, **windows) -> Data:
    """Return data with some long texts in test, of which no column has room for all tokens."""
    data = good_data()
    rng = random.Random(3)
    for split, count in {"train": 20, "validation": 6, "test": long_rows}.items():
        for row in range(count):
            data.raw[split]["two"][row] += f". {sentence(rng, [*WORDS, *COMPOUNDS], 30, 45)}"
    if single:
        data.columns = ("two",)
        data.raw = {split: {key: rows[key] for key in ("two", "labels")} for split, rows in data.raw.items()}

    def change(values):
        values["data"]["text_columns"] = list(data.columns)
        values["tokenize"].update(max_length=48, long_text=long_text)
        values["tokenize"]["windows"].update(stride=8, **windows)

    data.set_params(change)
    return data.tokenize()


@pytest.mark.parametrize(("long_text", "single"), [("truncate", True), ("windows", True), ("windows", False)])
def test_tokenized_long_texts_pass_every_check(long_text, single, check):
    data = long_data(long_text, single=single)
    if long_text == "windows":
        assert max(map(len, data.tokenized["test"]["window_lengths"])) > 3
    assert failed_checks(check(data)) == set()


def truncated(results, split="test"):
    (result,) = [
        entry for entry in results.record.checks if (entry.check, entry.split) == ("truncation_rate", split)
    ]
    return result


@pytest.mark.parametrize(("max_windows", "found"), [(2, "6 of 60 rows"), (20, "0 of 60 rows")])
def test_text_in_windows_counts_as_truncated_if_it_has_more_than_all_windows_hold(max_windows, found, check):
    results = check(long_data("windows", long_rows=6, max_windows=max_windows), only=["truncation_rate"])
    assert truncated(results).found.startswith(found)


def drop_special_token(windows: list[list[int]]) -> None:
    windows[1][0] = windows[1][1]


def lengthen_window(windows: list[list[int]]) -> None:
    """Move the tokens of the last window to the first one."""
    windows[0] = [*windows[0][:-1], *windows[1][1:-1], windows[0][-1]]
    windows[1] = [windows[1][0], *windows[2][1:]]
    del windows[2]


def change_windows(table, row: int, change) -> None:
    """Change the windows of a row as lists of token ids."""
    ids = table["input_ids"][row]
    windows = []
    for length in table["window_lengths"][row]:
        windows.append(ids[:length])
        ids = ids[length:]
    change(windows)
    ids = [token for window in windows for token in window]
    table["input_ids"][row] = ids
    table["window_lengths"][row] = list(map(len, windows))
    table["attention_mask"][row] = [1] * len(ids)
    table["token_type_ids"][row] = [0] * len(ids)


def test_fault_of_one_window_fails_the_check_of_its_row(check):
    data = long_data("windows", single=True)
    faults = {
        "special_tokens": drop_special_token,
        "max_length": lengthen_window,
    }
    for row, change in enumerate(faults.values()):
        change_windows(data.tokenized["test"], row, change)
    results = check(data)
    assert failed_checks(results) == faults.keys()
    found = {result.check: result.examples[0].number for result in results.record.checks if result.examples}
    assert (found["special_tokens"], found["max_length"]) == (0, 1)


def test_windows_that_do_not_have_the_tokens_of_their_row_are_found(check):
    data = long_data("windows")
    data.tokenized["test"]["window_lengths"][2][0] -= 1
    assert "column_lengths" in failed_checks(check(data, only=["column_lengths"]))
