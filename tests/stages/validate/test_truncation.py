import random

import numpy as np
import pytest

from stages.validate.truncation import TruncationNotes, model_limit
from tests.checkpoints import write_checkpoint
from tests.stages.validate.data import Data, sentence
from tuneline.core.base_source import BaseSource, PretrainedSource
from tuneline.core.tables import WINDOW_LENGTHS
from tuneline.core.written_records import write_record
from tuneline.model.text_lengths import TextLengths

MAX_LENGTH = 40


@pytest.fixture
def long_data(data) -> Data:
    """Splits in which a third of the second texts has hundreds of tokens, and a model input 40."""
    rng = random.Random(1)
    for columns in data.raw.values():
        for row in range(0, len(columns["labels"]), 3):
            columns[data.columns[1]][row] = sentence(rng, shortest=60, longest=90)
            columns[data.columns[0]][row] = sentence(rng, shortest=2, longest=3)
    return data


def tokenize(data: Data, long_text: str, **values) -> Data:
    def change(params):
        params["tokenize"].update(max_length=MAX_LENGTH, long_text=long_text)
        params["tokenize"]["windows"].update({"stride": 8, **values})
        params["validate"]["truncation_rate"]["max"] = 0.5

    data.set_params(change)
    return data.tokenize()


def notes(results, split="train") -> str:
    for entry in results.record.checks:
        if (entry.check, entry.split) == ("truncation_rate", split):
            return "\n".join(entry.notes)
    raise AssertionError("the check did not run")


def failed(results) -> set[str]:
    return {entry.check for entry in results.record.checks if entry.status != "passed"}


ABOUT_LENGTHS = {"length_outliers", "revealing_length", "length_drift", "label_drift", "near_duplicates"}


def test_truncated_texts_have_options_with_tokens_and_time(long_data, check):
    results = check(tokenize(long_data, "truncate"), only=["truncation_rate"])
    lines = notes(results)
    assert "33.5 % of the rows are longer than 40 tokens" in lines
    assert "tokenize.max_length=" in lines
    assert "model.config.max_position_embeddings=" in lines
    assert "tokenize.long_text=windows tokenize.windows.max_windows=" in lines
    assert "tokenize.long_text=head_tail reads the beginning and the end of each text, in the same" in lines
    assert lines.count(" times the time") == 2
    others = notes(results, "test")
    assert "of the rows are longer than 40 tokens" in others
    assert "tokenize." not in others


def test_head_and_tail_leave_out_middles(long_data, check):
    results = check(tokenize(long_data, "head_tail"))
    assert failed(results) <= ABOUT_LENGTHS
    assert "the model does not read their middles" in notes(results)
    assert "tokenize.long_text=windows" in notes(results)
    assert "head_tail" not in notes(results)


def test_enough_windows_have_the_factor_of_time_and_no_option(long_data, check):
    results = check(tokenize(long_data, "windows", max_windows=40))
    assert failed(results) <= ABOUT_LENGTHS
    assert "are read in windows, in " in notes(results)
    assert notes(results).endswith("the time of tokenize.long_text=truncate.")


def test_too_few_windows_are_said(long_data, check):
    results = check(tokenize(long_data, "windows", max_windows=2), only=["truncation_rate"])
    assert "have more than 2 windows" in notes(results)
    assert "tokenize.windows.max_windows=" in notes(results)


def test_data_without_long_texts_has_no_notes(data, check):
    assert notes(check(data, only=["truncation_rate"])) == ""


def test_token_types_that_do_not_begin_anew_in_a_window_are_found(long_data, check):
    tokenize(long_data, "windows", max_windows=40)
    train = long_data.tokenized["train"]
    row = next(row for row, lengths in enumerate(train[WINDOW_LENGTHS]) if len(lengths) > 1)
    train["token_type_ids"][row][train[WINDOW_LENGTHS][row][0]] = 1
    assert "token_type_ids" in failed(check(long_data, only=["token_type_ids"]))


def test_limit_is_that_of_the_checkpoint(tmp_path):
    write_checkpoint(tmp_path / "tokenizer", limit=64)
    source = PretrainedSource(name="someone/bert", license=None, sha256={})
    write_record(tmp_path / "source.json", BaseSource(checkpoint=source, tokenizer=source))
    assert model_limit(tmp_path) == 64
    write_record(tmp_path / "source.json", BaseSource(checkpoint=None, tokenizer=source))
    assert model_limit(tmp_path) is None


def test_options_depend_on_the_limit_of_the_model(long_data):
    lengths = TextLengths.of_texts([np.full(100, 500)], 2)
    tokenize(long_data, "truncate")

    def options(limit):
        return "\n".join(TruncationNotes(lengths, 100, long_data.params, limit).options())

    assert "tokenize.max_length=504 " in options(None)
    assert "tokenize.max_length=64 " in options(64)
    assert "tokenize.max_length" not in options(MAX_LENGTH)
    assert "windows" in options(MAX_LENGTH)


def test_pairs_of_long_texts_are_not_told_of_windows(long_data):
    long = np.full(100, 500)
    lengths = TextLengths.of_texts([long, long], 3)
    tokenize(long_data, "truncate")
    lines = TruncationNotes(lengths, 100, long_data.params, MAX_LENGTH).options()
    assert "windows" not in "\n".join(lines)
    assert "head_tail" in "\n".join(lines)


def test_sample_of_the_rows_is_said(long_data):
    lengths = TextLengths.of_texts([np.full(100, 500)], 2)
    tokenize(long_data, "truncate")
    lines = TruncationNotes(lengths, 5000, long_data.params, None).losses()
    assert "100 % of the rows (of 100 that were measured)" in lines[0]
