from tests.stages.validate.conftest import failed_result


def test_few_broken_rows_are_a_warning_with_what_they_should_read(data, check):
    texts = data.raw["train"]["one"]
    texts[3] += " Größe"
    texts[50] = f"say cafÃ© {texts[50]}"
    result = failed_result(check(data.tokenize()))
    assert (result.check.key, result.split, result.status, result.severity) == ("mixed_encoding", "train", "failed", "warning")
    assert result.notes[0] == (
        "1 row, the first is row 50, the last row 50. Other rows with correct characters beyond ASCII: 1. So the source has parts in two "
        "encodings."
    )
    assert result.notes[1].startswith("row 50, one: 'cafÃ© ")
    assert " should read 'café " in result.notes[1]


def test_many_broken_rows_are_an_error_only(data, check):
    for row in (50, 60, 70):
        data.raw["train"]["two"][row] += " cafÃ©"
    result = failed_result(check(data.tokenize()))
    assert (result.check.key, result.severity) == ("broken_encoding", "error")
    assert "data.files.encoding may be wrong for the whole source" in result.notes[0]
    assert [note[:11] for note in result.notes[1:]] == ["row 50, two", "row 60, two", "row 70, two"]
