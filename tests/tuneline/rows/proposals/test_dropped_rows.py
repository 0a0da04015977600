"""``tuneline data drop``: rows that violate a check, to data/corrections/dropped.csv."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from tests.custom_functions import write_functions
from tests.params import change_params, write_params
from tests.shards import into_shards
from tuneline.checks.results import Checks
from tuneline.cli import app
from tuneline.core.paths import CHECKS, FAILING_ROWS, RAW, SPLITS, split_file
from tuneline.core.stage.records import split_hash, write_record
from tuneline.core.stage.tables import failing_rows_schema, shard_file, split_files, write_table
from tuneline.model.tasks import Classification
from tuneline.model.tasks.columns import raw_schema
from tuneline.rows.splits.corrections import Corrections, row_keys

DATA = {"source": "files", "text_columns": ["text"], "label_column": "label"}
DROPPED = Path("data/corrections/dropped.csv")
TRAIN = ["one", "two", "Three", "three", "four", "one", "ONE", "five", "one"]
VALIDATION = ["two", "six", "seven"]
TEST = ["three", "eight", "six", "nine"]
LEAKS = [("validation", 0, "train", 1), ("test", 0, "train", 2), ("test", 2, "validation", 1)]
COPIES = [
    ("train", 3, "train", 2),
    ("train", 5, "train", 0),
    ("train", 6, "train", 0),
    ("train", 8, "train", 0),
]
TEXTS = dict(zip(SPLITS, (TRAIN, VALIDATION, TEST), strict=True))


@pytest.fixture
def run(tmp_path, monkeypatch) -> Callable[..., Result]:
    """Run the command in a project with data in shards that was checked."""
    monkeypatch.chdir(tmp_path)
    write_params(tmp_path, data=DATA)
    RAW.mkdir(parents=True)
    for split, texts in TEXTS.items():
        columns = {"text": texts, "labels": [0] * len(texts), "idx": list(range(len(texts)))}
        write_table(
            pa.table(columns, schema=raw_schema(["text"], Classification(("a", "b")))), split_file(RAW, split)
        )
    FAILING_ROWS.mkdir(parents=True)
    into_shards(RAW, rows=3)
    hashes = {split: split_hash(split_files(RAW, split)) for split in SPLITS}
    write_record(
        CHECKS / "checks.json",
        Checks(passed=True, errors=0, warnings=0, metrics={}, not_run=[], raw_sha256=hashes, checks=[]),
    )
    write_rows("leakage", LEAKS)
    write_rows("duplicates", COPIES)
    write_rows("control_characters", [("validation", 2), ("test", 3)])

    def run(*words: object) -> Result:
        return CliRunner().invoke(app, ["data", "drop", *map(str, words)])

    return run


def write_rows(check: str, rows: Sequence[tuple]) -> None:
    """Write the rows of a check as stage ``validate`` does: split, row, and the row that they repeat."""
    schema = failing_rows_schema(["text"], pairs=len(rows[0]) == 4)
    whole = [(split, row, TEXTS[split][row], "", *other) for split, row, *other in rows]
    write_table(
        pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in whole], schema),
        FAILING_ROWS / f"{check}.parquet",
    )


def dropped() -> set[tuple[str, ...]]:
    """Return text, split, rows and reason of each line of the file."""
    texts = {row_keys([pa.array([text])])[0].as_py(): text for texts in TEXTS.values() for text in texts}
    return {
        (texts[one["key"]], one["split"], one["rows"], one["reason"])
        for one in Corrections.read().dropped.to_pylist()
    }


def test_leaked_rows_are_dropped_from_the_earlier_split(run):
    """The check names the first row that a row repeats; all rows of train that it repeats must go."""
    done = run("--check", "leakage", "--from", "train")
    assert done.exit_code == 0, done.output
    assert dropped() == {(text, "train", "all", "leakage") for text in ("two", "Three", "three")}
    assert "leakage: 3 rows of train to drop." in done.output
    assert "dropped.csv: 3 new lines, 3 in all." in done.output
    assert "dvc repro" in done.output
    content = DROPPED.read_bytes()
    again = run("--check", "leakage", "--from", "train")
    assert "0 new lines, 3 in all." in again.output
    assert DROPPED.read_bytes() == content


def test_later_copies_are_dropped_and_the_first_stays(run):
    assert run("--check", "duplicates").exit_code == 0
    assert dropped() == {
        ("one", "train", "later", "duplicates"),
        ("ONE", "train", "all", "duplicates"),
        ("three", "train", "all", "duplicates"),
    }


def test_row_that_is_wrong_by_itself_is_dropped_from_every_split(run):
    assert run("--check", "control_characters", "--check", "duplicates").exit_code == 0
    assert {line for line in dropped() if line[3] == "control_characters"} == {
        ("seven", "", "all", "control_characters"),
        ("nine", "", "all", "control_characters"),
    }
    assert len(dropped()) == 5


def test_rows_of_a_check_of_the_user_are_dropped(run):
    write_rows("no_phone_numbers", [("test", 1)])
    assert "'no_phone_numbers' is not a data check" in run("--check", "no_phone_numbers").output
    change_params(Path(), {"validate.own": ["project/checks.py:no_phone_numbers"]})
    write_functions(Path())
    done = run("--check", "no_phone_numbers")
    assert done.exit_code == 0, done.output
    assert dropped() == {("eight", "", "all", "no_phone_numbers")}


def test_rows_of_other_data_are_refused(run):
    """Rows of test are leaked; those of train, which would be dropped, have other numbers by now."""
    columns = {"text": TRAIN[1:], "labels": [0] * 8, "idx": list(range(8))}
    write_table(
        pa.table(columns, schema=raw_schema(["text"], Classification(("a", "b")))),
        shard_file(RAW, "train", 0, 3),
    )
    done = run("--check", "leakage", "--from", "train")
    assert done.exit_code == 1
    assert (
        "reports/checks/ is about other data than data/raw/train (3 files).\n  Run `dvc repro validate`"
        in done.output
    )
    assert not DROPPED.exists()
    write_params(Path(), data=DATA | {"text_columns": ["body"]})
    assert (
        "has the text columns ['text'], and data.text_columns is ['body']"
        in run("--check", "leakage", "--from", "train").output
    )
    write_params(Path(), data=DATA)
    (CHECKS / "checks.json").unlink()
    assert "checks.json is missing" in run("--check", "leakage", "--from", "train").output
