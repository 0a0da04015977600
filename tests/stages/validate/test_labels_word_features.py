import pyarrow as pa

from stages.validate.labels import word_features


def features(*columns, limit=100) -> dict[str, set[int]]:
    """Return the rows of each feature by its name."""
    found = word_features([pa.array(column, pa.string()) for column in columns], limit)
    return {found.name(number): set(found.rows[found.ids == number].tolist()) for number in range(len(found))}


def test_features_are_words_pairs_and_ends_that_two_rows_have():
    assert features(["Refund me, refund me", "refund me, PLEASE", "", "other"]) == {
        "“refund”": {0, 1},
        "“me”": {0, 1},
        "“,”": {0, 1},
        "“refund” at the start": {0, 1},
        "“refund me”": {0, 1},
        "“me ,”": {0, 1},
    }


def test_ids_have_their_shape_in_common():
    assert (
        features(["INC4821", "inc97", "INC4821"]).items()
        >= {
            "“inc0”": {0, 1, 2},
            "“inc4821”": {0, 2},
        }.items()
    )


def test_symbols_and_characters_of_scripts_without_spaces_are_words():
    assert features(["★ good", "★ bad"])["“★”"] == {0, 1}
    assert features(["环境真好", "环境太差"]).keys() == {"“环”", "“境”", "“环” at the start", "“环 境”"}


def test_word_of_two_texts_of_a_row_is_repeated():
    found = word_features([pa.array(["a b", "a"]), pa.array(["a", "b"])], 100)
    names = [found.name(number) for number in found.ids]
    repeated = {
        (int(row), name): bool(both)
        for row, name, both in zip(found.rows, names, found.repeated, strict=True)
    }
    assert repeated[0, "“a”"]
    assert not repeated[1, "“a”"]
    assert not repeated[0, "“b”"]


def test_most_frequent_features_are_kept():
    assert features(["a b", "a c", "a b"], limit=1) == {"“a”": {0, 1, 2}}


def test_texts_without_words_have_no_features():
    assert features(["", " "]) == features([]) == {}
