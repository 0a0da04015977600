import csv
import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from stages.download.__main__ import main as download
from tuneline.cli import app
from tuneline.params.loading import load_params

runner = CliRunner(env={"COLUMNS": "200"})


def init(*words):
    return runner.invoke(app, ["init", *map(str, words)])


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_one_file_gives_three_splits_and_its_parameters(project, tickets):
    done = init(tickets, "--force")
    assert done.exit_code == 0, done.output
    data = load_params().data
    assert (data.source, data.path, data.text_columns, data.label_column) == ("files", "tickets", ["text"], "label")
    splits = {split: read(project / f"data/source/tickets/{split}.csv") for split in ("train", "validation", "test")}
    assert {split: len(rows) for split, rows in splits.items()} == {"train": 32, "validation": 4, "test": 4}
    assert sorted(int(row["id"]) for rows in splits.values() for row in rows) == list(range(40))
    assert {row["label"] for row in splits["test"]} == {"delivery", "damage"}


def test_first_rows_and_decisions_are_shown(tickets):
    output = init(tickets, "--force").output
    assert "it arrived broken, in two pieces (0)" in output
    assert "label: 'label' (by its name)" in output
    assert "data.source: sample -> files" in output


def test_nothing_is_written_without_a_terminal_to_ask(project, tickets):
    before = (project / "params.yaml").read_bytes()
    done = init(tickets)
    assert done.exit_code == 1
    assert "nothing was written" in done.output
    assert (project / "params.yaml").read_bytes() == before
    assert not (project / "data").exists()


def test_files_are_written_only_after_a_yes(project, tickets, monkeypatch):
    monkeypatch.setattr("tuneline.cli.init.command.sys", Terminal)
    assert runner.invoke(app, ["init", str(tickets)], input="n\n").exit_code == 1
    assert not (project / "data").exists()
    assert runner.invoke(app, ["init", str(tickets)], input="y\n").exit_code == 0
    assert (project / "data/source/tickets/train.csv").exists()


class Terminal:
    class stdin:  # noqa: N801 - replaces sys.stdin
        @staticmethod
        def isatty():
            return True


def test_existing_folder_is_kept_by_default(project, tickets, monkeypatch):
    assert init(tickets, "--force").exit_code == 0
    before = (project / "data/source/tickets/train.csv").stat().st_mtime_ns
    monkeypatch.setattr("tuneline.cli.init.command.sys", Terminal)
    done = runner.invoke(app, ["init", str(tickets)], input="\n")
    assert done.exit_code == 1
    assert "which already exists" in done.output
    assert (project / "data/source/tickets/train.csv").stat().st_mtime_ns == before


def test_files_named_after_splits_are_kept_and_a_missing_split_is_taken_from_train(project, tickets):
    lines = tickets.read_text().splitlines(keepends=True)
    (project / "my-train.csv").write_text(lines[0] + "".join(lines[1:36]))
    (project / "my-test.csv").write_text(lines[0] + "".join(lines[36:]))
    done = init(project / "my-train.csv", project / "my-test.csv", "--force", "--name", "mine")
    assert done.exit_code == 0, done.output
    assert "validation taken from my-train.csv" in done.output
    assert len(read(project / "data/source/mine/test.csv")) == 5
    assert len(read(project / "data/source/mine/validation.csv")) + len(read(project / "data/source/mine/train.csv")) == 35


def test_test_file_without_labels_is_left_out_with_a_note(project, tickets):
    (project / "train.csv").write_text(tickets.read_text())
    (project / "test.csv").write_text("id,text\n1,what is this\n2,and what is that\n")
    done = init(project / "train.csv", project / "test.csv", "--force", "--name", "mine")
    assert done.exit_code == 0, done.output
    assert "test.csv has no labels" in done.output
    assert len(read(project / "data/source/mine/test.csv")) == 4


def test_numeric_labels_give_a_regression_with_a_suitable_metric(project):
    (project / "sts.tsv").write_text("sentence1\tsentence2\tscore\n" + "".join(f"a {n}\tb {n}\t{n / 7:.2f}\n" for n in range(50)))
    assert init(project / "sts.tsv", "--force").exit_code == 0
    params = load_params()
    assert (params.data.task, params.train.metric) == ("regression", "pearson")
    assert params.evaluate.behaviour is None


def test_file_without_a_header_gets_column_names(project):
    (project / "a.csv").write_text("".join(f"{'good' if n % 2 else 'bad'},some words here {n}\n" for n in range(40)))
    done = init(project / "a.csv", "--force")
    assert done.exit_code == 0, done.output
    data = load_params().data
    assert data.files.columns == ["column_1", "column_2"]
    assert (data.text_columns, data.label_column) == (["column_2"], "column_1")


def test_problems_of_later_stages_are_shown_as_warnings(project):
    (project / "a.csv").write_text("text,label\n" + "".join(f"{'word ' * 300}{n},{n % 2}\n" for n in range(30)))
    output = init(project / "a.csv", "--force").output
    assert "validation and test: fewer than 20 rows" in output
    assert "tokenize.max_length is 128" in output


def test_markup_in_a_text_is_shown_literally(project):
    (project / "a.csv").write_text("text,label\n" + "".join(f"[red]warm[/red] words {n},{n % 2}\n" for n in range(30)))
    assert "[red]warm[/red] words 0" in init(project / "a.csv", "--force").output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.csv"], "missing.csv does not exist"),
        (["."], ". is a folder"),
        (["tickets.csv", "--label", "queue"], "There is no column 'queue'"),
        (["tickets.csv", "--name", "../elsewhere"], "is not a folder name"),
        (["tickets.csv", "tickets.csv"], "the split is not clear from the name"),
        (["binary.csv"], "binary.csv is a binary file"),
    ],
)
def test_error_is_one_message_and_nothing_is_written(project, tickets, words, message):
    (project / "binary.csv").write_bytes(bytes(range(256)) * 20)
    done = init(*words, "--force")
    assert done.exit_code == 1
    assert message in done.output
    assert "Traceback" not in done.output
    assert not (project / "data").exists()


ROWS = [(f'wörds, and "more"; of row {n}', "ab"[n % 2]) for n in range(60)]


def as_csv(path, delimiter=",", encoding="utf-8", header=True):
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter).writerows([*([("text", "label")] if header else []), *ROWS])


def as_json(path, opener=open):
    with opener(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text, "label": label}) + "\n" for text, label in ROWS)


WRITERS = {
    "comma.csv": as_csv,
    "semicolon.csv": lambda path: as_csv(path, ";"),
    "quoted.tsv": lambda path: as_csv(path, "\t"),
    "windows.csv": lambda path: as_csv(path, ";", "cp1252"),
    "marked.csv": lambda path: as_csv(path, encoding="utf-8-sig"),
    "bare.csv": lambda path: as_csv(path, header=False),
    "lines.jsonl": as_json,
    "packed.jsonl.gz": lambda path: as_json(path, gzip.open),
    "columns.parquet": lambda path: pq.write_table(pa.table({"text": [row[0] for row in ROWS], "label": [row[1] for row in ROWS]}), path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_download_stage_reads_every_row_of_the_written_files(project, name):
    """The layout that init detects must be the one that the download stage reads."""
    WRITERS[name](project / name)
    done = init(project / name, "--force")
    assert done.exit_code == 0, done.output
    download()
    (column,) = load_params().data.text_columns
    texts = [text for split in ("train", "validation", "test") for text in pq.read_table(f"data/raw/{split}.parquet")[column].to_pylist()]
    assert sorted(texts) == sorted(text for text, _ in ROWS)


@pytest.mark.real_data
def test_mrpc_is_recognised_and_copied_unchanged(project, shared):
    done = init(*sorted((shared / "data/mrpc").glob("*.tsv")), "--force")
    assert done.exit_code == 0, done.output
    data = load_params().data
    assert (data.text_columns, data.label_column, data.files.quoting) == (["#1 String", "#2 String"], "Quality", None)
    for split in ("train", "validation", "test"):
        assert (project / f"data/source/mrpc/{split}.tsv").read_bytes() == (shared / f"data/mrpc/{split}.tsv").read_bytes()
