"""Rows that have no label to learn from: what says so, and when it is asked about."""

import json

import pyarrow.parquet as pq
import pytest

from stages.download import main
from tests.tuneline.operations.adoption.test_planning import init
from tests.tuneline.operations.adoption.test_planning_label_layouts import cycle, texts_of, write_csv
from tuneline.core.params.loading import load_params
from tuneline.model.tasks.columns import read_task
from tuneline.rows.proposals.readings import OpenQuestionError


def write_jsonl(folder, header, columns):
    texts = texts_of(len(columns[0]))
    rows = [dict(zip(["text", *header], row, strict=True)) for row in zip(texts, *columns, strict=True)]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "in.jsonl"


def learnt(path, *options):
    """Return the classes that are learnt, the rows, and what was said."""
    done = init(path, *options, "--yes")
    assert done.exit_code == 0, done.output
    main()
    rows = sum(pq.read_metadata(f"data/raw/{split}.parquet").num_rows for split in ("train", "test"))
    rows += pq.read_metadata("data/raw/validation.parquet").num_rows
    return read_task(pq.read_schema("data/raw/train.parquet")).names, rows, done.output


@pytest.mark.parametrize(
    ("cells", "classes", "rows"),
    [
        (cycle("a", "b", "\\N"), ("a", "b"), 40),
        (cycle("a", "b", "(null)", "NULL"), ("a", "b"), 30),
        (cycle("a", "b", "-", "c"), ("a", "b", "c"), 45),
        (cycle("1", "2", "NA"), ("1", "2"), 40),
        (cycle("1.0", "2.0", "nan"), ("1", "2"), 40),
        (cycle(["a"], [], ["b"]), ("a", "b"), 40),
        (cycle("['a']", "[]", "['b']"), ("a", "b"), 40),
    ],
)
def test_missing_labels_are_no_class_and_are_counted(project, cells, classes, rows):
    write = write_jsonl if isinstance(cells[0], list) else write_csv
    names, kept, output = learnt(write(project, ["label"], [cells]))
    assert (names, kept) == (classes, rows)
    assert f"({60 - rows} rows)" in output


@pytest.mark.parametrize(
    ("cells", "classes"),
    [
        (cycle("joy", "fear", "none"), ("fear", "joy", "none")),
        (cycle("EU", "APAC", "NA"), ("APAC", "EU", "NA")),
        (cycle("+", "-"), ("+", "-")),
        (cycle("spam", "null"), ("null", "spam")),
        (cycle("250.00", "250.0", "401.9"), ("250.0", "250.00", "401.9")),
        (cycle("3.0", "3", "1", "2.0"), ("1", "2.0", "3", "3.0")),
        (cycle(1.5, 2, 2.25), ("1.5", "2", "2.25")),
        (cycle("1;2", "3;4", "2;1", "4;4"), ("1;2", "2;1", "3;4", "4;4")),
    ],
)
def test_what_can_be_a_class_is_asked_about_and_learnt_as_it_is_written(project, cells, classes):
    write = write_csv if isinstance(cells[0], str) else write_jsonl
    path = write(project, ["label"], [cells])
    done = init(path, "--label", "label", "--yes")
    assert done.exit_code == OpenQuestionError.status, done.output
    answer = ("--label", "label", "--task", "classification")
    assert " ".join(answer) in done.output
    assert learnt(path, *answer)[:2] == (classes, 60)


@pytest.mark.parametrize(
    "option", [(), ("--label", "label"), ("--label", "label", "--task", "classification")]
)
def test_plan_without_most_rows_is_a_question(project, option):
    path = write_csv(project, ["label"], [cycle("a", "", "b", "\\N", "-")])
    done = init(path, *option, "--yes")
    assert done.exit_code == OpenQuestionError.status, done.output
    assert "60% of the rows have no text or no label" in done.output
    assert "--text text --label label --task classification" in done.output
    assert learnt(path, "--text", "text", "--label", "label", "--task", "classification")[1] == 24


def test_word_in_a_set_is_asked_about_and_listed(project):
    path = write_csv(project, ["label"], [cycle("a;b", "a", "b;c", "none", "\\N")])
    done = init(path, "--yes")
    assert done.exit_code == OpenQuestionError.status, done.output
    assert "'none' can be a label" in done.output
    names, rows, _ = learnt(path, "--label", "label", "--separator", ";")
    assert (names, rows) == (("a", "b", "c", "none"), 48)
    assert load_params().data.label_names == list(names)


def test_rejected_labels_are_not_learnt(project):
    answers = cycle("accept", "accept", "reject", "ignore")
    path = write_jsonl(project, ["label", "answer"], [cycle("a", "b", "c"), answers])
    done = init(path, "--label", "label", "--task", "classification", "--yes")
    assert done.exit_code == 1
    assert "30 of 60 labels are not marked 'accept'" in done.output
    kept = [line for line in path.read_text().splitlines() if json.loads(line)["answer"] == "accept"]
    path.write_text("\n".join(kept))
    assert learnt(path)[:2] == (("a", "b", "c"), 30)


def test_tags_of_tokens_are_refused_and_no_obstacle_beside_an_intent(project):
    intents = cycle("book", "play")
    path = write_csv(project, ["slots", "intent"], [cycle("O B-city", "O O", "B-song I-song"), intents])
    assert learnt(path)[0] == ("book", "play")
    done = init(path, "--label", "slots", "--yes")
    assert "token classification, which Tuneline does not do" in done.output

    path.write_text("sentence,word,tag\n" + "1,late,O\n,parcel,B-thing\n,order,O\n" * 20)
    done = init(path, "--label", "tag", "--task", "classification", "--yes")
    assert "Each row is one token" in done.output
