import pytest

from tuneline.runtime.errors import DataError
from tuneline.sniffing.files import sniff


def written(folder, line, rows=40, name="data.txt"):
    (folder / name).write_text("".join(line.format(row) + "\n" for row in range(rows)))
    return folder / name


def test_lines_of_fasttext_are_recognised(tmp_path):
    found = sniff(written(tmp_path, "__label__a some words {}"))
    assert found.source.layout.format.name == "fasttext"


def test_lines_of_trec_are_refused_with_the_command_that_converts_them(tmp_path):
    with pytest.raises(DataError, match="lines of TREC") as refused:
        sniff(written(tmp_path, "DESC:manner How do {} things begin ?"))
    assert "sed -E" in refused.value.hint


@pytest.mark.parametrize(
    ("line", "delimiter"),
    [
        ("{} ::: A title ::: drama ::: A story, about a dog", ":::"),
        ("{}::A title (1995)::Comedy", "::"),
        ("Profit rose by {} percent@positive", "@"),
    ],
)
def test_delimiter_of_every_line_is_recognised(tmp_path, line, delimiter):
    assert sniff(written(tmp_path, line)).source.layout.delimiter == delimiter


def test_addresses_in_some_lines_are_no_delimiter(tmp_path):
    path = written(tmp_path, "write to me@example.com, {}", name="a.csv")
    path.write_text("text,label\n" + path.read_text())
    assert sniff(path).source.layout.delimiter == ","
