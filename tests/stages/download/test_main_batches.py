"""Data that grows: a file, and a folder of batches beside it."""

import json
from typing import Any

import pytest

from tests.stages.download.made import GOOD, write_source
from tuneline.core.runtime.errors import DataError

NEWEST = [{"text": "a bargain", "label": "spam"}]
JANUARY, MARCH = "2026-01-31-crm-0a1b2c3d.jsonl", "2026-03-01-crm-4e5f6a7b.parquet"
FEBRUARY = "2026-02-28-crm-11223344.csv.gz"
BATCHES = {
    MARCH: NEWEST,
    JANUARY: '{"text": "hello", "label": "ham"}\n\n{"text": "buy", "label": "spam"}\n',
    FEBRUARY: "label,text\nham,good night\n",
}
BASE = ["free money", "see you at six", "you won", "lunch?"]


@pytest.fixture
def batches(project):
    """A folder of three batches for the train split."""
    write_source(project / "data/source/train", BATCHES)
    return project / "data/source/train"


def test_batches_follow_the_file_in_the_order_of_their_names(download, project, batches):
    (batches / ".gitignore").write_text("/2026*\n")
    (batches / f"{MARCH}.dvc").write_text("outs: []\n")
    train = download()["train"]
    assert train["text"].to_pylist() == [*BASE, "hello", "buy", "good night", "a bargain"]
    assert train["idx"].to_pylist() == list(range(8))
    source = json.loads((project / "data/raw/source.json").read_text())
    assert source["files"]["train"] == "data/source/train.csv"
    assert source["batches"] == {
        "train": {
            f"data/source/train/{name}": rows for name, rows in [(JANUARY, 2), (FEBRUARY, 1), (MARCH, 1)]
        }
    }


def test_shards_as_the_hub_names_them_are_a_split(download, project):
    shards = {
        f"train-0000{number}-of-00002.parquet": [{"text": f"text {number}", "label": "ham"}]
        for number in range(2)
    }
    files = {
        **GOOD,
        "train.csv": None,
        **shards,
        "train-00000-of-00002.parquet": [{"text": "text 0", "label": "spam"}],
    }
    assert download(files)["train"]["text"].to_pylist() == ["text 0", "text 1"]
    (project / "data/source/train-00000-of-00002.parquet").unlink()
    with pytest.raises(DataError, match="the files of the split train are not complete"):
        download({**GOOD, "train.csv": None})
    with pytest.raises(DataError, match="split 'train' has several files"):
        download({**GOOD, **shards})


def test_batches_alone_are_a_split(download, batches):
    assert download({**GOOD, "train.csv": None})["train"]["text"].to_pylist() == [
        "hello",
        "buy",
        "good night",
        "a bargain",
    ]


@pytest.mark.parametrize(
    ("batch", "data", "message"),
    [
        (
            (JANUARY, '{"text": "a", "label": "ham"}\n\n{"text": " ", "label": "ham"}\n'),
            {},
            f"{JANUARY}, line 3, column 'text': no text",
        ),
        (("x.csv.dvc", "outs: []\n"), {}, "train/x.csv is missing, but x.csv.dvc names it"),
        (("notes.xlsx", ""), {}, "train/notes.xlsx, in a folder of batches, does not end in"),
    ],
)
def test_errors_name_the_batch(batch: tuple[str, Any], data: dict[str, Any], message: str, download, batches):
    write_source(batches, dict([batch]))
    with pytest.raises(DataError) as error:
        download(data=data)
    assert message in str(error.value)
