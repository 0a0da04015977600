"""A killed download: the next one ends with the outs of a run that was never killed, and leaves nothing
else."""

import shutil
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from stages.download.__main__ import main
from tests.faults.kills import killed
from tests.stages.download.made import Content, write_params, write_source
from tests.stages.download.test_corrector import correct, key

DATA: dict[str, Any] = {
    "splits": {"train": "all"},
    "split": {"validation": 0.2, "test": 0.2},
    "max_bad_share": 0.5,
    "shard_rows": 50,
}


def rows(first: int, count: int) -> list[dict[str, str]]:
    """Rows of two classes, and one row of a third."""
    return [
        {"text": f"text number {row}", "label": "rare" if row == 70 else ("spam", "ham")[row % 2]}
        for row in range(first, first + count)
    ]


def delimited(values: list[dict[str, str]]) -> str:
    """Rows as CSV, behind a bad row and before two others, one of them without text."""
    return "\n".join(
        [
            "text,label",
            "one cell",
            *(f"{value['text']},{value['label']}" for value in values),
            ",ham",
            "one cell",
        ]
    )


def outs() -> dict[str, bytes]:
    """All that the stage writes, by path."""
    folders = (Path("data/raw"), Path("reports/download"), Path("metrics"))
    return {
        path.as_posix(): path.read_bytes()
        for folder in folders
        for path in folder.rglob("[!.]*")
        if path.is_file()
    }


def remove_outs() -> None:
    for folder in ("data/raw", "reports", "metrics"):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def expected(project: Path) -> dict[str, bytes]:
    """The outs of a run that was never killed, on a CSV file and a folder of batches; corrections empty one
    of the classes."""
    batches: dict[str, Content] = {
        "2026-01-02.parquet": list(rows(80, 80)),
        "2026-01-03.csv": delimited(rows(160, 240)),
    }
    write_source(project / "data/source", {"all.csv": delimited(rows(0, 80))})
    write_source(project / "data/source/all", batches)
    write_params(DATA)
    correct([(key("text number 70"), "train", "rare", "ham")])
    main()
    whole = outs()
    remove_outs()
    return whole


def renames(event: str, _arguments: object) -> bool:
    """A step is a file or folder that becomes visible."""
    return event == "os.rename"


def test_download_that_was_killed_at_any_step_ends_with_the_same_outs(expected):
    assert {
        "data/raw/train-00000-of-00005.parquet",
        "data/raw/validation-00001-of-00002.parquet",
    } <= expected.keys()
    for step in count(1):
        if not killed(main, step, renames):
            break
        main()
        assert outs() == expected
        assert {path.name for path in Path("data").iterdir()} == {"raw", "source", "corrections"}
        remove_outs()
    assert step > 2, "the folder and the list of skipped rows are steps"


def test_download_that_is_killed_while_it_reads_leaves_the_former_splits(expected):
    main()
    assert killed(main, 3, lambda event, arguments: event == "open" and str(arguments[0]).endswith(".csv"))  # type: ignore[index]
    assert outs() == {name: content for name, content in expected.items() if not name.startswith("metrics/")}
    main()
    assert outs() == expected
