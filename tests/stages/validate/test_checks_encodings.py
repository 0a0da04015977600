def test_few_broken_rows_are_named_with_what_they_should_read(data, tables):
    texts = data.raw["train"]["one"]
    texts[3] += " Größe"
    texts[50] = "say cafÃ© today"
    train = tables(data)["train"]
    assert train.notes["mixed_encoding"] == [
        (
            "1 row, the first is row 50, the last row 50. Other rows with correct characters beyond ASCII: 1."
            " So the source has parts in two encodings."
        ),
        "row 50, one: 'cafÃ© today' should read 'café today'",
    ]
    assert [row for row, count in enumerate(train.columns.column("mixed_characters")) if count] == [50]


def test_many_broken_rows_are_left_to_the_error(data, tables):
    for row in (50, 60, 70):
        data.raw["train"]["two"][row] = "a cafÃ©"
    found = tables(data)
    assert "mixed_characters" not in found["train"].columns.names
    assert "mixed_characters" in found["test"].columns.names
    first, *others = found["train"].notes["broken_encoding"]
    assert "data.files.encoding may be wrong for the whole source" in first
    assert others == [f"row {row}, two: 'cafÃ©' should read 'café'" for row in (50, 60, 70)]
