import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneline.readers import text
from tuneline.readers.jsonl import read_jsonl
from tuneline.readers.rows import Limits, RowProblem
from tuneline.readers.text import TextLines


def read(content, **options):
    text = io.TextIOWrapper(
        io.BufferedReader(io.BytesIO(content.encode(errors="surrogateescape"))),
        "utf-8",
        "surrogateescape",
        "",
    )
    return list(read_jsonl(TextLines(text, "file", **options)))


PROBLEMS = {
    "not JSON": ("{broken", "not JSON: .* at character 2"),
    "two objects": ("{} {}", "not JSON: Extra data at character 4"),
    "a list": ("[1]", "a list instead of a JSON object"),
    "text": ('"a"', "text instead of a JSON object"),
    "null": ("null", "null instead of a JSON object"),
    "true": ("true", "true or false instead of a JSON object"),
    "a number": ("1.5", "a number instead of a JSON object"),
    "deep nesting": ("[" * 100_000, "JSON nested too deep"),
    "a number of too many digits": (f'{{"a": {"1" * 5000}}}', "JSON that cannot be read"),
    "a bad byte": ('{"a": "\udce9"}', "not utf-8: byte 0xe9"),
}


@pytest.mark.parametrize(("line", "message"), PROBLEMS.values(), ids=PROBLEMS)
def test_problem_has_its_line_and_reading_continues(line, message):
    first, problem, last = read('{"a": 1}\n\n' + line + '\n{"a": 2}\n')
    assert (first, last) == ((1, {"a": 1}), (4, {"a": 2}))
    assert problem[0] == problem[1].line == 3
    assert re.match(message, problem[1].message)


def test_bad_byte_stays_in_the_object_where_reading_is_not_strict():
    assert read('{"a": "\udce9"}\n', strict=False) == [(1, {"a": "\udce9"})]


def test_over_long_line_is_a_problem(monkeypatch):
    monkeypatch.setattr(text, "LONGEST_LINE", 20)
    (_, problem), last = read('{"a": "' + "x" * 100 + '"}\n{"a": 2}\n')
    assert (problem.line, problem.message) == (1, "longer than 20 characters")
    assert last == (2, {"a": 2})


def test_empty_lines_are_skipped_but_counted():
    assert read('\n  \n{"a": 1}') == [(3, {"a": 1})]


@given(
    st.lists(
        st.dictionaries(
            st.text(max_size=5), st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=3
        )
    )
)
def test_objects_are_read_back(objects):
    assert read("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in objects)) == list(
        enumerate(objects, start=1)
    )


@given(st.text(st.characters(codec="utf-8"), max_size=300))
def test_any_content_gives_objects_or_problems(content):
    assert all(isinstance(row, dict | RowProblem) for _, row in read(content))


def test_file_that_was_appended_to_another_is_noticed_by_its_byte_order_mark():
    _, (line, problem) = read('{"a": 1}\n\ufeff{"a": 2}\n')
    assert (line, problem.message) == (2, "a byte order mark in front of the row")


def test_too_long_text_is_a_problem_of_its_line():
    long = json.dumps({"id": 1, "text": "x" * 101}), json.dumps({"id": 2, "text": "x" * 100})
    (_, problem), last = read("\n".join(long), limits=Limits(cell=100))
    assert (
        problem.message == "column 'text' has 101 characters, more than 100 (data.files.max_cell_characters)"
    )
    assert last == (2, {"id": 2, "text": "x" * 100})
