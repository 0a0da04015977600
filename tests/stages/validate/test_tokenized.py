import pytest

from stages.validate.tokenized import Vocabulary, read_tokenized
from tuneline.core.tables import SplitReader


@pytest.fixture
def columns(data, tmp_path):
    """Return a function that writes the data and derives the columns of a split."""

    def derive(split="test"):
        folders = data.write(tmp_path / "data")
        splits = {split: SplitReader.open(folders.tokenized, split, "tokenize")}
        vocabulary = Vocabulary.read(folders.tokenizer, len(data.columns))
        columns = read_tokenized(splits, vocabulary, data.labels, folders.derived, data.params.run)[split]
        (frame,) = columns.frames(sorted(columns.names))
        return frame

    return derive


def test_rows_of_a_pair_have_three_special_tokens_and_two_types(data, columns):
    frame = columns()
    assert frame["tokens"].tolist() == [len(ids) for ids in data.tokenized["test"]["input_ids"]]
    assert (frame["tokens"] - frame["content_tokens"]).unique().tolist() == [3]
    assert frame[["smallest_type", "largest_type", "type_drops"]].to_numpy().tolist() == [[0, 1, 0]] * len(
        frame
    )
    assert frame[["smallest_mask", "largest_mask"]].to_numpy().tolist() == [[1, 1]] * len(frame)


def test_id_outside_the_vocabulary_is_neither_special_nor_an_error(data, columns):
    data.tokenized["test"]["input_ids"][0][2] = 100_000
    data.tokenized["test"]["input_ids"][1][2] = -1
    frame = columns()
    assert frame["largest_id"][0] == 100_000
    assert frame["smallest_id"][1] == -1
    assert frame["special_tokens"][:2].tolist() == [3, 3]


def test_unknown_tokens_are_counted(data, columns):
    unknown = data.tokenizer.token_to_id("[UNK]")
    data.tokenized["test"]["input_ids"][3][1:3] = [unknown, unknown]
    assert columns()["unknown_tokens"].to_dict() == {
        row: 2 * (row == 3) for row in range(len(data.tokenized["test"]["labels"]))
    }


def test_row_without_tokens_keeps_its_place(data, columns):
    for name in ("input_ids", "attention_mask", "token_type_ids"):
        data.tokenized["test"][name][5] = []
    frame = columns()
    assert frame["tokens"][5] == frame["mask_tokens"][5] == frame["type_tokens"][5] == 0
    assert frame["tokens"][6] == len(data.tokenized["test"]["input_ids"][6])


def test_split_without_token_type_ids_has_no_type_columns(data, columns):
    for split in data.tokenized.values():
        del split["token_type_ids"]
    assert not [name for name in columns().columns if "type" in name]
