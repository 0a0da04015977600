import json
from collections.abc import Sequence
from typing import ClassVar

import pytest
from pydantic import Field

from tests.conftest import ROOT
from tuneline.core.runtime.errors import DataError
from tuneline.core.stage.code import imported_files
from tuneline.core.stage.records import OMITTED, Number, Record, write_record

ENTRY = {"from": "a", "rows": 3, "rate": 0.25, "hint": None}


class Entry(Record):
    origin: str = Field(alias="from")
    rows: int
    rate: Number
    commit: str | None = OMITTED
    hint: str | None


class Report(Record):
    written_by: ClassVar[str] = "evaluate"

    entries: Sequence[Entry]


def test_record_is_written_rounded_and_read_back(tmp_path):
    entry = Entry(origin="a", rows=3, rate=2 / 3, hint=None)
    write_record(tmp_path / "report.json", Report(entries=[entry]))
    values = json.loads((tmp_path / "report.json").read_text())
    assert values == {"entries": [{"from": "a", "rows": 3, "rate": 0.666667, "hint": None}]}
    assert Report.read(tmp_path / "report.json").entries == [entry]


def test_unknown_keys_are_kept_when_the_file_is_rewritten(tmp_path):
    """A newer version may have written it."""
    content = {"format": 2, "entries": [{"note": [1, None], **ENTRY, "more": {"deep": True}}], "last": "x"}
    (tmp_path / "report.json").write_text(json.dumps(content, indent=2) + "\n")
    write_record(tmp_path / "again.json", Report.read(tmp_path / "report.json"))
    assert json.loads((tmp_path / "again.json").read_text()) == content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", ": entries: missing."),
        (
            json.dumps({"entries": [ENTRY, {**ENTRY, "rows": "3"}]}),
            ": entries.1.rows: input should be a valid integer, not '3'.",
        ),
        (
            json.dumps({"entries": [{**ENTRY, "rate": float("nan")}]}),
            ": entries.0.rate: input should be a finite number, not nan.",
        ),
    ],
)
def test_invalid_file_is_refused_with_key_and_remedy(tmp_path, monkeypatch, content, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "report.json").write_text(content)
    with pytest.raises(DataError) as error:
        Report.read((tmp_path / "report.json").relative_to(tmp_path))
    assert str(error.value) == f"report.json{message}\n  Write it again: `dvc repro -f evaluate`."
    assert Report.read_if_valid(tmp_path / "report.json") is None


def test_records_need_no_torch():
    for path in (*(ROOT / "tuneline/checks").glob("*.py"), *(ROOT / "tuneline").glob("*/records.py")):
        files = imported_files(
            ".".join(path.relative_to(ROOT).with_suffix("").parts), ROOT, ("stages", "tuneline")
        )
        assert not {file for file in files if "import torch" in (ROOT / file).read_text(encoding="utf-8")}, (
            path
        )
