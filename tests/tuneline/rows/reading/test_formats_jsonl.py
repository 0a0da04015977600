"""JSON Lines and arrays of objects."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tuneline.rows.reading.rows_of_files import problems, read
from tuneline.core.runtime.errors import DataError
from tuneline.rows.reading import formats
from tuneline.rows.reading.rows import RowProblem

BAD = {
    "no JSON": ("{broken", "not JSON"),
    "a list": ("[1]", "a list instead of a JSON object"),
    "deep nesting": ("[" * 100_000, "not JSON"),
    "a bad byte": ('{"a": "\udce9"}', "not utf-8: byte 0xe9"),
    "another file": ('\ufeff{"a": 3}', "not JSON: Unexpected UTF-8 BOM"),
}


@pytest.mark.parametrize(("line", "message"), BAD.values(), ids=BAD)
def test_line_that_cannot_be_read_has_its_number_and_reading_continues(tmp_path, line, message):
    _, rows = read(tmp_path / "a.jsonl", '{"a": 1}\n\n' + line + '\n{"a": 2}\n')
    assert (rows[0], rows[2]) == ((1, [1]), (4, [2]))
    ((number, found),) = problems(rows)
    assert (number, found[: len(message)]) == (3, message)


def test_columns_are_the_keys_of_the_first_objects_and_a_key_that_is_absent_is_null(tmp_path):
    names, rows = read(tmp_path / "a.jsonl", '{}\n{"a": 1}\n{"b": [2], "a": "x"}\n')
    assert names == ["a", "b"]
    assert rows == [(1, [None, None]), (2, [1, None]), (3, ["x", [2]])]


ARRAY = '\n[\n {"a": 1},\n {"a": 2}]\n'


def test_array_is_read_whatever_the_file_is_called(tmp_path):
    for name in ("a.json", "a.jsonl"):
        assert read(tmp_path / name, ARRAY) == (["a"], [(3, [1]), (4, [2])])
    _, rows = read(tmp_path / "a.json", '[{"a": 1},\n 7,\n {"a": 3}]')
    assert (rows[0], rows[2]) == ((1, [1]), (3, [3]))
    assert problems(rows) == [(2, "a number instead of a JSON object")]


DAMAGED_ARRAYS = {
    "two arrays": ('[{"a": 1},\n {"a": 2}]\n[{"a": 3}]\n', "line 2: something follows", "jq -c"),
    "an array and a row": ('[{"a": 1}]\n{"a": 2}\n', "line 1: something follows", "jq -c"),
    "lines of arrays": ("[1]\n[2]\n", "line 1: something follows", "jq -c"),
    "a broken element": ('[{"a": 1},\n {broken},\n {"a": 3}]', "line 2: not JSON", "JSON Lines"),
    "cut in an element": ('[{"a": 1},\n {"a": 2},\n {"a', "line 3: not JSON", "Fetch the file again"),
    "cut between elements": ('[{"a": 1},\n {"a": 2},\n', "line 3: not JSON", "Fetch the file again"),
}


@pytest.mark.parametrize(("content", "message", "hint"), DAMAGED_ARRAYS.values(), ids=DAMAGED_ARRAYS)
def test_array_whose_rows_cannot_all_be_counted_is_refused(tmp_path, content, message, hint):
    """As one bad row, the rest of the file would be lost in silence."""
    with pytest.raises(DataError, match=f"a.json, {message}") as refused:
        read(tmp_path / "a.json", content)
    assert hint in refused.value.hint


def test_array_that_is_too_long_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "LARGEST_ARRAY", 10)
    with pytest.raises(DataError, match="an array of JSON of more than 10") as refused:
        read(tmp_path / "a.json", ARRAY)
    assert "jq -c" in refused.value.hint


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=300))
def test_any_content_gives_values_or_problems(tmp_path, content):
    _, rows = read(tmp_path / "a.jsonl", '{"a": 1}\n' * 50 + content)
    assert all(isinstance(row, list | RowProblem) for _, row in rows)
