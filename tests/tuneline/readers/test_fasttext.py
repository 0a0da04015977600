from tuneline.readers.fasttext import FASTTEXT
from tuneline.readers.tables import Input, open_table


def rows_of(path, columns):
    with open_table(Input(path, FASTTEXT.usual)) as table:
        assert table.names() == ["label", "text"]
        return list(table.rows(dict.fromkeys(columns, "")))


def test_labels_and_text_of_each_line_are_read(tmp_path):
    path = tmp_path / "a.ft"
    path.write_text("__label__a one text\n\n__label__a __label__b-c two , words\nno label here\n")
    assert rows_of(path, ["text", "label"]) == [
        (1, ["one text", "a"]),
        (3, ["two , words", "a\tb-c"]),
        (4, ["no label here", ""]),
    ]


def test_line_that_is_not_in_the_encoding_is_a_problem(tmp_path):
    path = tmp_path / "a.ft"
    path.write_bytes(b"__label__a one\n__label__b caf\xe9\n")
    (_, first), (line, problem) = rows_of(path, ["text"])
    assert (first, line) == (["one"], 2)
    assert "not utf-8" in problem.message
