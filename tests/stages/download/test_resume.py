"""A killed download: the next one goes on behind the last whole file, and its outs are those of a run that was never killed."""

import json
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from stages.download.__main__ import main
from tests.conftest import ROOT
from tests.faults.kills import killed
from tests.stages.download.made import Content, write_params, write_source
from tests.stages.download.test_correct import correct, key

DATA: dict[str, Any] = {
    "splits": {"train": "all"},
    "split": {"validation": 0.2, "test": 0.2},
    "bad_rows": "skip",
    "max_bad_share": 0.5,
    "shard_rows": 50,
}


def rows(first: int, count: int) -> list[dict[str, str]]:
    """Rows of two classes, and one row of a third."""
    return [
        {"text": f"text number {row}", "label": "rare" if row == 70 else ("spam", "ham")[row % 2]} for row in range(first, first + count)
    ]


def delimited(values: list[dict[str, str]], delimiter: str = ",", bad: str = "one cell") -> str:
    """Rows as CSV or TSV, behind a bad row and before two others, one of them without text."""
    lines = [f"{value['text']}{delimiter}{value['label']}" for value in values]
    return "\n".join([f"text{delimiter}label", bad, *lines, f"{delimiter}ham", bad])


def json_lines(values: list[dict[str, str]]) -> str:
    """The same as JSON Lines; one of the bad rows has another type of label than the first row of the file."""
    lines = [json.dumps(value) for value in values]
    return "\n".join(["{", *lines, '{"text": " ", "label": "ham"}', '{"text": "a number", "label": 3}'])


def files() -> dict[str, Content]:
    """A folder of 9 files of 40 rows, of all kinds."""
    kinds: list[tuple[str, Callable[[Any], Content]]] = [("csv", delimited), ("jsonl", json_lines), ("parquet", list)]
    return {f"2026-01-{day:02d}.{kinds[day % 3][0]}": kinds[day % 3][1](rows(40 * day, 40)) for day in range(1, 10)}


def outs() -> dict[str, bytes]:
    """All that the stage writes, by path."""
    folders = (Path("data/raw"), Path("reports/download"), Path("metrics"))
    return {path.as_posix(): path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}


def remove_outs() -> None:
    for folder in ("data/raw", "data/.raw.resumable", "reports", "metrics"):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def expected(project: Path) -> dict[str, bytes]:
    """The outs of a run on the folder of files that was never killed; corrections empty one of its classes."""
    write_source(project / "data/source/all", files())
    write_params(DATA)
    correct([(key("text number 70"), "train", "rare", "ham")])
    main()
    whole = outs()
    remove_outs()
    return whole


def renames(event: str, _arguments: object) -> bool:
    """A step is a file or folder that becomes visible."""
    return event == "os.rename"


def continued(said: str) -> int:
    """The row after which the stage has said that it continues; 0 if it has not."""
    return max((int(number.replace(",", "")) for number in re.findall(r"continues after row ([0-9,]+),", said)), default=0)


def test_killed_download_continues_behind_the_last_whole_file_with_the_same_outs(expected, capsys):
    assert {"data/raw/train-00000-of-00005.parquet", "data/raw/validation-00001-of-00002.parquet"} <= expected.keys()
    after = []
    for step in (2, 12, 24):
        assert killed(main, step, renames)
        assert step > 2 or killed(main, 2, renames), "killed again"
        assert not Path("data/raw").exists()
        capsys.readouterr()
        main()
        after.append(continued(capsys.readouterr().out))
        assert outs() == expected
        remove_outs()
    assert 50 <= after[0] < after[1] == after[2] == 366


@pytest.mark.slow
def test_other_data_parameter_or_correction_begins_anew_and_a_damaged_copy_is_made_again(expected, capsys):
    def changed() -> None:
        assert killed(main, 6, renames)
        capsys.readouterr()

    changed()
    Path("data/source/all/2026-01-08.parquet").write_bytes(Path("data/source/all/2026-01-05.parquet").read_bytes())
    main()
    assert not continued(capsys.readouterr().out)
    write_source(Path("data/source/all"), files())
    remove_outs()
    changed()
    write_params({**DATA, "shard_rows": 60})
    main()
    assert not continued(capsys.readouterr().out)
    remove_outs()
    write_params(DATA)
    changed()
    second = next(Path("data/.raw.resumable").rglob("staged/0/00001.parquet"))
    second.write_bytes(second.read_bytes()[:-5])
    main()
    assert 0 < continued(capsys.readouterr().out) < 100, "only what is in front of it is used"
    assert outs() == expected


@pytest.mark.slow
def test_download_continues_wherever_it_is_killed(expected):
    for step in count(1):
        if not killed(main, step, renames):
            break
        main()
        assert outs() == expected
        remove_outs()
    assert step > 25, "each file of the copy and of the splits is a step"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["all.csv", "all.tsv.gz", "all.jsonl", "all.parquet", "sample"])
def test_download_of_one_large_file_continues_within_it(name, project, capsys):
    values = rows(0, 25_000)
    values[12_000:12_000] = [{"text": "", "label": "ham"}, {"text": "a fraction", "label": "0.5"}]
    contents = {"csv": delimited, "tsv": lambda values: delimited(values, "\t"), "jsonl": json_lines, "parquet": list}
    data = {**DATA, "shard_rows": 10_000}
    if name == "sample":
        data |= {"source": "sample", "text_columns": ["subject", "body"], "label_column": "queue", "splits": {"train": "train"}}
    else:
        write_source(project / "data/source", {name: contents[name.split(".")[1]](values)})
    write_params({**data, "sample": {"rows": 30_000, "mislabelled": 0.03}})
    main()
    expected = outs()
    remove_outs()
    for step in (2, 3, 6):
        assert killed(main, step, renames)
        capsys.readouterr()
        main()
        assert continued(capsys.readouterr().out) >= min(10_000 * (step - 1), 24_000)
        assert outs() == expected
        remove_outs()


@pytest.mark.slow
def test_download_that_is_killed_at_random_times_ends_with_the_same_outs(project):
    write_source(project / "data/source", {"all.csv": delimited(rows(0, 100_000)), "all": None})
    write_params({**DATA, "shard_rows": 10_000})
    main()
    expected = outs()
    remove_outs()
    draw, kills, command = random.Random(7), 0, [sys.executable, "-m", "stages.download"]
    while True:
        process = subprocess.Popen(command, env={"PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL)
        try:
            process.wait(draw.uniform(0.5, 2.5))
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
    assert kills
    assert process.returncode == 0
    assert {name: content for name, content in outs().items() if name in expected} == expected
