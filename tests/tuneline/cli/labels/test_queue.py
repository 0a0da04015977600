"""``tuneline labels queue``: what people label next."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from tests.exported_pipeline import published_pipeline
from tests.params import write_params
from tests.runaway import TEXT, make_runaway
from tests.small_pipeline import QUEUES
from tests.tuneline.scored_files import write_scored
from tuneline.analysis.drift import Distribution
from tuneline.analysis.text import text_keys
from tuneline.cli import app
from tuneline.core.written_records import write_record
from tuneline.paths import REFERENCE_PROFILE
from tuneline.reports.checks import Profile, SplitProfile, Words
from tuneline.runtime.errors import InputError

QUEUE = "reports/labels/queue.csv"
DATA = {"source": "files", "path": "mail", "text_columns": ["text"], "label_column": "queue"}
SURE, UNSURE = [0.95, 0.05], [0.51, 0.49]
COMMON = ["please", "help", "with", "my", "invoice", "the", "parcel", "is", "late", "again"]


@pytest.fixture
def run(tmp_path, monkeypatch) -> Callable[..., Result]:
    """Run the command in a project whose training data had ten words."""
    monkeypatch.chdir(tmp_path)
    write_params(tmp_path, data=DATA)
    (tmp_path / "data/source/mail/train").mkdir(parents=True)
    (tmp_path / "data/source/mail/train.csv").write_text("text,queue\nplease HELP  with my invoice,billing\n")
    (tmp_path / "data/source/mail/train/2026-11-20-mail.csv").write_text(
        "queue,text\nparcel,the parcel is late\n,help\n"
    )
    words = Words(hashes=[f"{key:016x}" for key in text_keys(pa.array(COMMON)).tolist()], known=0.9)
    train = SplitProfile(rows=2, labels=None, characters=Distribution((), (2,)), words=words)
    (tmp_path / REFERENCE_PROFILE.parent).mkdir(parents=True)
    write_record(
        tmp_path / REFERENCE_PROFILE,
        Profile(version=1, labels=["billing", "parcel"], splits={"train": train}),
    )

    def run(*words: object) -> Result:
        return CliRunner().invoke(app, ["labels", "queue", *map(str, words)])

    return run


def queue(path=QUEUE) -> list[dict[str, str]]:
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def scored(root, rows: dict[str, list[float]], name: str = "mail.csv", **more) -> None:
    content = "id,text\n" + "".join(f'{number},"{text}"\n' for number, text in enumerate(rows, start=1))
    write_scored(root, name, content, list(rows.values()), **more)


def test_uncertain_and_new_texts_come_first(run, tmp_path):
    rows = {
        f"help with the parcel again please {'my ' * count}".strip() + " late" * count: SURE
        for count in range(5)
    }
    scored(tmp_path, {**rows, "is my invoice late": UNSURE, "quantum flux capacitor broken": SURE})
    done = run("--rows", 2, "--id", "id")
    assert done.exit_code == 0, done.output
    assert (
        "2 of 7 scored rows to label, 0 have a label already: reports/labels/queue.csv. Fill in the column"
        " 'queue'." in done.output
    )
    assert queue() == [
        {
            "id": "6",
            "text": "is my invoice late",
            "queue": "",
            "predicted": "billing",
            "probability": "0.51",
            "new_words": "0.0",
            "reason": "uncertain: billing 0.51, parcel 0.49",
        },
        {
            "id": "7",
            "text": "quantum flux capacitor broken",
            "queue": "",
            "predicted": "billing",
            "probability": "0.95",
            "new_words": "1.0",
            "reason": "new: 100% of its words are not common in training",
        },
    ]


def test_labelled_and_near_equal_texts_are_left_out(run, tmp_path):
    long = "the parcel is late again please help with my invoice and call me back on monday morning"
    rows = {
        "Please help with  my INVOICE": UNSURE,
        "the parcel is late": UNSURE,
        "help": UNSURE,
        long: UNSURE,
        f"{long} thanks": SURE,
    }
    scored(tmp_path, rows)
    scored(tmp_path, {"HELP": SURE, "my parcel": SURE}, "later.csv", age=-60)
    scored(tmp_path, {"never archived": SURE}, "gone.csv", age=-90)
    (tmp_path / "data/archive/gone.csv").unlink()
    done = run()
    assert done.exit_code == 0, done.output
    assert sorted(row["text"] for row in queue()) == ["HELP", "my parcel", long]
    assert "left out: data/archive/gone.csv is missing, or is not the file that was scored" in done.output
    assert "3 of 7 scored rows to label, 2 have a label already" in done.output


def test_only_the_last_rows_are_read(run, tmp_path):
    scored(tmp_path, {"an old one": UNSURE})
    scored(tmp_path, {"a first one": SURE, "a second one": UNSURE}, "later.csv", age=-60)
    assert run("--last-rows", 1).exit_code == 0
    assert [row["text"] for row in queue()] == ["a first one"]


def test_predictions_belong_to_their_rows_where_some_were_skipped(run, tmp_path):
    write_scored(
        tmp_path, "mail.csv", 'text\n""\none more\n" "\nyet another\n', [SURE, [0.1, 0.9]], skipped=(1, 3)
    )
    run()
    assert {row["text"]: row["predicted"] for row in queue()} == {
        "one more": "billing",
        "yet another": "parcel",
    }


def test_predictions_belong_to_their_rows_where_some_have_no_id(run, tmp_path):
    rows = (
        '{"id": 1, "text": "one more"}\n{"text": "scored, but without an id"}\n{"id": 3, "text": "yet'
        ' another"}\n'
    )
    write_scored(tmp_path, "mail.jsonl", rows, [SURE, UNSURE, [0.1, 0.9]])
    run("--id", "id")
    assert {row["id"]: row["predicted"] for row in queue()} == {"1": "billing", "3": "parcel"}


def test_numbers_are_ordered_by_new_words(run, tmp_path):
    write_params(
        tmp_path, data={**DATA, "task": "regression"}, train={"metric": "pearson"}, evaluate={"metrics": []}
    )
    write_scored(tmp_path, "mail.csv", "text\nhelp me\nsomething unheard of\n", [[3.5], [-1.25]], labels=None)
    done = run()
    assert done.exit_code == 0, done.output
    assert [(row["predicted"], row["probability"]) for row in queue()] == [("-1.25", ""), ("3.5", "")]


def test_labels_of_a_person_are_not_replaced(run, tmp_path):
    scored(tmp_path, {"one": SURE, "two": SURE})
    run()
    assert run().exit_code == 0, "an empty queue is replaced"
    path = tmp_path / QUEUE
    path.write_bytes(path.read_bytes().replace(b"one,,", b"one,parcel,"))
    done = run()
    assert done.exit_code == 1
    assert "queue.csv has 1 labels, which would be lost" in done.output
    assert queue()[[row["text"] for row in queue()].index("one")]["queue"] == "parcel"
    path.write_bytes(path.read_bytes().replace(b",", b";"))
    assert "is another file: it has no column 'queue'" in run().output, (
        "saved by a spreadsheet with another delimiter"
    )
    assert "is a text column or the label column" in run("--id", "text").output
    assert run("--force").exit_code == 0
    assert run("-o", "more/x.csv").exit_code == 0


@pytest.fixture
def plain(tmp_path_factory, tmp_path, monkeypatch) -> Callable[..., Result]:
    """Run commands in a project without a flow, with a published model of (subject, body)."""
    monkeypatch.chdir(tmp_path)
    write_params(
        tmp_path,
        data={
            "source": "files",
            "path": "mail",
            "text_columns": ["subject", "body"],
            "label_column": "queue",
        },
    )
    shutil.copytree(
        published_pipeline(tmp_path_factory, "classification") / "models/onnx", tmp_path / "models/onnx"
    )
    return lambda *words: CliRunner().invoke(app, [*map(str, words)])


def test_plain_file_gives_the_queue_that_the_flow_would_give(plain, tmp_path):
    lines = [
        f"{number},subject {number},the {word} is {'late ' * number}"
        for number, word in enumerate(COMMON[:8], start=1)
    ]
    content = "\n".join(["id,subject,body", *lines[:4], "99,,", *lines[4:], ""])
    (tmp_path / "new.csv").write_text(content)
    done = plain("labels", "queue", "new.csv", "--id", "id", "--rows", 5)
    assert done.exit_code == 0, done.output
    assert (
        "5 of 8 rows to label, 0 have a label already: reports/labels/queue.csv. Fill in the column 'queue'."
        in done.output
    )
    assert "skipped row 5 (line 6): column 'subject' and 'body': no text" in done.output
    from_file = (tmp_path / QUEUE).read_bytes()
    predicted = plain("predict", "new.csv", "--bad-rows", "skip", "--max-bad-share", 1).stdout.splitlines()
    outputs = [list(json.loads(line)["probabilities"].values()) for line in predicted if line.startswith("{")]
    write_scored(tmp_path, "new.csv", content, outputs, labels=QUEUES, skipped=(5,))
    assert plain("labels", "queue", "--id", "id", "--rows", 5).exit_code == 0
    assert (tmp_path / QUEUE).read_bytes() == from_file


def test_plain_file_of_another_layout_is_detected_and_its_first_rows_count(plain, tmp_path):
    (tmp_path / "new.csv").write_bytes(
        "body;Größe;subject\nfür den Anfang;1;erstens\nzum Schluss;2;zweitens\n".encode("cp1252")
    )
    done = plain("labels", "queue", "new.csv", "--last-rows", 1)
    assert done.exit_code == 0, done.output
    assert [(row["subject"], row["body"]) for row in queue()] == [("erstens", "für den Anfang")]


def test_labels_of_a_plain_file_are_named(plain, tmp_path):
    (tmp_path / "new.csv").write_text(
        "subject,body,queue\nfirst,the beginning,billing\nsecond,the end,parcel\n"
    )
    done = plain("labels", "queue", "new.csv")
    assert done.exit_code == 0, done.output
    assert "new.csv has labels in column 'queue'" in done.output


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        ("subject,text\na,b\n", 65, "new.csv: no column 'body'"),
        ("subject,body\n,\n", 65, "new.csv has no row with a text"),
        (None, 65, "new.csv does not exist"),
    ],
)
def test_plain_file_without_texts_is_refused(content, status, message, plain, tmp_path):
    if content:
        (tmp_path / "new.csv").write_text(content)
    done = plain("labels", "queue", "new.csv")
    assert (done.exit_code, message in done.output) == (status, True), done.output
    assert not (tmp_path / QUEUE).exists()


def test_row_that_the_tokenizer_cannot_encode_is_named(plain, tmp_path):
    model = tmp_path / "models/onnx"  # absolute: a process loads the model of a path once
    make_runaway(model / "tokenizer.json")
    (tmp_path / "new.csv").write_text(
        "subject,body\n" + "the parcel,is missing\n" * 4 + f"the parcel,{TEXT}\n"
    )
    done = plain("labels", "queue", "new.csv", "--model", model)
    assert done.exit_code == InputError.status, done.output
    problem = f"new.csv, row 5: the tokenizer {model / 'tokenizer.json'} cannot encode this text of 60"
    assert problem in done.output
    assert not (tmp_path / QUEUE).exists()


def test_model_of_other_columns_is_refused(plain, tmp_path):
    write_params(tmp_path, data=DATA)
    (tmp_path / "new.csv").write_text("text\na\n")
    done = plain("labels", "queue", "new.csv")
    assert done.exit_code == 1
    assert "models/onnx was trained on 'subject', 'body', and data.text_columns is 'text'" in done.output


@pytest.mark.parametrize("option", [[], ["--id", "nosuch"]])
def test_nothing_to_choose_from_is_explained(option, run, tmp_path):
    if option:
        scored(tmp_path, {"one": SURE})
    done = run(*option)
    assert done.exit_code == 1
    assert "data/scored has no scored rows whose texts are in the archive" in done.output
    assert ("no column 'nosuch'" in done.output) == bool(option)
    assert not (tmp_path / QUEUE).exists()


@pytest.mark.parametrize("cell", ["=HYPERLINK(1)", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1"])
def test_cell_that_a_spreadsheet_would_execute_begins_with_a_space(cell, run, tmp_path):
    content = f'id,text\n"{cell}","{cell}"\n'
    write_scored(tmp_path, "mail.csv", content, [SURE])
    assert run("--id", "id").exit_code == 0
    (row,) = queue()
    assert row["text"] == f" {cell}"
    assert not row["id"].startswith(("=", "+", "-", "@", "\t", "\r"))
