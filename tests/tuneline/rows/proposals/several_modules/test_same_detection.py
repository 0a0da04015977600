"""``tuneline predict FILE`` and ``tuneline evaluate FILE`` read what ``tuneline init FILE`` reads."""

import csv
import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.conftest import SHARED
from tests.params import write_params
from tuneline.core.params.loading import load_params
from tuneline.core.runtime.errors import DataError
from tuneline.model.tasks import TASKS, unnamed_task
from tuneline.operations.adoption.planning import Plan, make_plan
from tuneline.operations.adoption.rows import read_files
from tuneline.rows.labelled_file import read_labelled
from tuneline.rows.proposals.files import sniffed_input
from tuneline.rows.proposals.readings import UserChoices
from tuneline.rows.reading.labelled import LABEL, LabelledColumns, labelled_rows
from tuneline.rows.reading.rows import BadRowPolicy, BadRows
from tuneline.rows.reading.tables import open_table
from tuneline.serve.columns import InputColumns
from tuneline.serve.streaming import good_rows

TEXTS = [f'Größe {n}: wörds, "more"; the parcel {"never came" if n % 2 else "was broken"}' for n in range(60)]
LABELS = ["delivery" if n % 2 else "damage" for n in range(60)]
HEADER = ["text", "label"]
EVERY_ROW = BadRowPolicy(1.0)


def table(delimiter=",", encoding="utf-8", *, header=True, before=""):
    """Return what writes a table."""
    rows = [HEADER] if header else []
    rows += [list(row) for row in zip(TEXTS, LABELS, strict=True)]

    def write(path: Path) -> None:
        with path.open("w", newline="", encoding=encoding) as file:
            file.write(before)
            csv.writer(file, delimiter=delimiter).writerows(rows)

    return write


def objects(path: Path) -> None:
    """Write JSON Lines."""
    rows = zip(TEXTS, LABELS, strict=True)
    lines = [json.dumps(dict(zip(HEADER, row, strict=True)), ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def packed(write: Callable[[Path], None]) -> Callable[[Path], None]:
    """Return what writes the same, compressed."""

    def write_packed(path: Path) -> None:
        write(path)
        path.write_bytes(gzip.compress(path.read_bytes()))

    return write_packed


WRITERS = {
    "semicolon.csv": table(";"),
    "tabs.tsv": table("\t"),
    "utf-16.csv": table(encoding="utf-16"),
    "no-header.csv": table(header=False),
    "sep-line.csv": table(before="sep=,\n"),
    "lines.jsonl": objects,
    "packed.csv.gz": packed(table()),
}
FOLDER = SHARED / "data/cases"
CASES = sorted(path for path in FOLDER.rglob("*") if path.suffix in {".csv", ".json", ".jsonl"})
NO_CASES = pytest.mark.skipif(not CASES, reason=f"{FOLDER} does not exist: it is on some machines only")


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """Return an empty project, the working directory."""
    write_params(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", WRITERS)
def test_commands_read_what_init_reads(name):
    path = Path(name)
    WRITERS[name](path)
    texts = check_commands(path)
    assert texts == [(text,) for text in TEXTS]


@pytest.mark.real_data
@NO_CASES
@pytest.mark.parametrize("path", CASES or [FOLDER], ids=lambda path: path.name)
def test_commands_read_what_init_reads_of_shared_files(path):
    check_commands(path)


def check_commands(path: Path) -> Sequence[tuple[str, ...]]:
    """Compare how the commands read a file, and the texts and labels; return the texts."""
    params = load_params()
    try:
        files = read_files([path], None, None, params.data)
        made = make_plan(files, UserChoices(), params)
    except DataError as error:
        pytest.skip(f"init does not read it: {error.problem}")
    columns = made.decision.text_columns

    # init
    init = LabelledColumns(
        columns,
        made.decision.label_column,
        unnamed_task(made.decision.task),
        policy=EVERY_ROW,
        sets=made.decision.sets,
    )
    bad = BadRows(str(path), "row", EVERY_ROW)
    with open_table(made.source) as opened:
        rows = [row for batch in labelled_rows(opened, init, bad) for row in batch.to_pylist()]
    expected = [tuple(row[f"text_{number}"] for number in range(len(columns))) for row in rows]
    filled = [texts for texts in expected if any(text and text.strip() for text in texts)]

    # predict
    source = sniffed_input(path, columns, None, None)
    assert source == files["train"].source
    with open_table(source) as opened:
        rows_of_predict = good_rows(opened, InputColumns(columns), BadRows(str(path), "row", EVERY_ROW))
        read = [row.texts for row in rows_of_predict]
    assert [texts for texts in read if texts in set(filled)] == filled

    # evaluate
    check_evaluation(path, made, rows)
    return expected


def check_evaluation(path: Path, made: Plan, rows: list[dict]) -> None:
    """Compare the labels that ``tuneline evaluate`` reads, by a model with these classes."""
    decision = made.decision
    labels = [row[LABEL] for row in rows if row[LABEL] is not None]
    names: set[str] = set()
    for label in labels:
        names.update(label if isinstance(label, list) else [str(label)])
    task = TASKS[decision.task].of_outputs(sorted(names))
    columns = LabelledColumns(
        decision.text_columns, decision.label_column, task, policy=EVERY_ROW, sets=decision.sets
    )
    evaluated = read_labelled(path, columns)
    usable = [row for row in rows if row[LABEL] is not None and row["text_0"]]
    assert evaluated.texts[decision.text_columns[0]].to_pylist() == [row["text_0"] for row in usable]
    values = [task.value(label) for label in evaluated.labels]
    if isinstance(usable[0][LABEL], float):
        assert values == pytest.approx([row[LABEL] for row in usable], rel=1e-6)
    elif isinstance(usable[0][LABEL], str):
        assert values == [row[LABEL] for row in usable]
    else:
        assert [set(value) for value in values] == [set(row[LABEL]) for row in usable]
