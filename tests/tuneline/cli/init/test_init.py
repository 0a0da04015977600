import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from stages.download import main as download
from tuneline.cli import app
from tuneline.core.params.data import SplitParams
from tuneline.core.params.loading import load_params
from tuneline.rows.splits.corrections import dropped_file

runner = CliRunner(env={"COLUMNS": "200"})


def init(*words):
    return runner.invoke(app, ["init", *map(str, words)])


def downloaded():
    """Run the stage and return the numbers of the rows of each split."""
    download()
    return {
        split: pq.read_table(f"data/raw/{split}.parquet")["idx"].to_pylist()
        for split in ("train", "validation", "test")
    }


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_one_file_gives_parameters_that_divide_it_and_a_copy(project, tickets):
    done = init(tickets, "--force")
    assert done.exit_code == 0, done.output
    data = load_params().data
    assert (data.source, data.path, data.text_columns, data.label_column) == (
        "files",
        "tickets",
        ["text"],
        "label",
    )
    assert (data.splits.train, data.split, data.max_bad_share) == (
        "all",
        SplitParams(validation=0.15, test=0.3),
        0.0,
    )
    assert contents(project / "data/source") == {"tickets/all.csv": tickets.read_bytes()}


def test_second_run_changes_nothing_and_asks_nothing(project, tickets):
    dropped_file().parent.mkdir(parents=True)
    dropped_file().touch()
    assert "git rm data/corrections/dropped.csv" in init(tickets, "--force").output, (
        "it is of the former data"
    )
    params = (project / "params.yaml").read_bytes()
    done = init(tickets)
    assert done.exit_code == 0, done.output
    assert "nothing, all is there already" in done.output
    assert "git rm" not in done.output
    assert (project / "params.yaml").read_bytes() == params


@pytest.mark.parametrize("name", ["train.csv", "mine.csv"])
@pytest.mark.parametrize("options", [[], ["--name", "mine"]])
def test_originals_in_the_target_folder_are_kept(project, tickets, name, options):
    """A command that replaced the folder deleted the originals that were in it."""
    folder = project / "data/source/mine"
    folder.mkdir(parents=True)
    tickets.replace(folder / name)
    (folder / "notes.txt").write_text("kept")
    before = contents(folder)
    for _ in range(2):
        assert init(folder / name, "--force", *options).exit_code == 0
        after = contents(folder)
        assert {path: after.get(path) for path in before} == before
        assert sum(map(len, downloaded().values())) == 40


def test_copy_that_cannot_be_written_leaves_the_parameters(project, tickets, monkeypatch):
    before = (project / "params.yaml").read_bytes()

    def full(source, target):
        target.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tuneline.operations.adoption.placement.shutil.copyfile", full)
    done = init(tickets, "--force")
    assert done.exit_code == 1
    assert "data/source/tickets/all.csv cannot be written: No space left on device" in done.output
    assert (project / "params.yaml").read_bytes() == before
    assert contents(project / "data") == {}


@pytest.mark.parametrize("at", ["shutil.copyfile", "Path.replace"])
def test_interrupted_copy_leaves_no_part_and_the_next_run_completes_it(project, tickets, monkeypatch, at):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    before = (project / "params.yaml").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(f"tuneline.operations.adoption.placement.{at}", interrupted)
        assert init(tickets, "--force").exit_code == 130
    assert contents(project / "data") == {}
    assert (project / "params.yaml").read_bytes() == before
    assert init(tickets, "--force").exit_code == 0
    assert contents(project / "data/source") == {"tickets/all.csv": tickets.read_bytes()}


def test_yes_writes_without_asking_and_keeps_copies_that_differ(project, tickets):
    assert init(tickets, "--yes").exit_code == 0
    assert load_params().data.path == "tickets"
    before = contents(project / "data/source")
    tickets.write_text(tickets.read_text() + "99,one more,damage\n")
    for options, added in ((["--yes"], "Add --force"), ([], "Add --force")):
        done = init(tickets, *options)
        assert done.exit_code == 1
        assert "data/source/tickets/all.csv" in done.output
        assert added in done.output
        assert contents(project / "data/source") == before
    assert init(tickets, "--yes", "--force").exit_code == 0
    assert contents(project / "data/source") == {"tickets/all.csv": tickets.read_bytes()}


def test_nothing_is_written_without_a_terminal_to_ask(project, tickets):
    before = (project / "params.yaml").read_bytes()
    done = init(tickets)
    assert done.exit_code == 1
    assert "nothing was written" in done.output
    assert (project / "params.yaml").read_bytes() == before
    assert not (project / "data").exists()


def test_files_named_after_splits_are_kept_and_a_missing_split_is_taken_from_train(project, tickets):
    lines = tickets.read_text().splitlines(keepends=True)
    (project / "my-train.csv").write_text(lines[0] + "".join(lines[1:36]))
    (project / "my-test.csv").write_text(lines[0] + "".join(lines[36:]))
    done = init(project / "my-train.csv", project / "my-test.csv", "--force", "--name", "mine")
    assert done.exit_code == 0, done.output
    assert load_params().data.split == SplitParams(validation=0.15, test=0)
    rows = downloaded()
    assert len(rows["test"]) == 5
    assert len(rows["train"]) + len(rows["validation"]) == 35


def test_test_file_without_labels_is_left_out_with_a_note(project, tickets):
    (project / "train.csv").write_text(tickets.read_text())
    (project / "test.csv").write_text("id,text\n1,what is this\n2,and what is that\n")
    done = init(project / "train.csv", project / "test.csv", "--force", "--name", "mine")
    assert done.exit_code == 0, done.output
    assert "test.csv has no labels" in done.output
    assert set(contents(project / "data/source")) == {"mine/all.csv"}
    assert len(downloaded()["test"]) == pytest.approx(12, abs=1)


def test_markup_in_a_text_is_shown_literally(project):
    (project / "a.csv").write_text(
        "text,label\n" + "".join(f"[red]warm[/red] words {n},{n % 2}\n" for n in range(30))
    )
    assert "[red]warm[/red] words 0" in init(project / "a.csv", "--force").output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.csv"], "missing.csv does not exist"),
        (["tickets.csv", "--by", "customer"], "no column 'customer'"),
        (["tickets.csv", "--name", "../elsewhere"], "is not a folder name"),
        (["tickets.csv", "tickets.csv"], "the split is not clear from the name"),
        (["binary.csv"], "binary.csv is a binary file"),
    ],
)
def test_error_is_one_message_and_nothing_is_written(project, tickets, words, message):
    (project / "binary.csv").write_bytes(bytes(range(256)) * 20)
    (project / "empty").mkdir()
    for split in ("train", "validation", "test"):
        (project / f"my-{split}.csv").write_bytes(tickets.read_bytes())
    done = init(*words, "--force")
    assert done.exit_code == 1
    assert message in done.output
    assert "Traceback" not in done.output
    assert not (project / "data").exists()


def test_rows_without_label_are_left_out_and_counted(project, tickets):
    tickets.write_text(tickets.read_text() + "".join(f"{row},text of row {row},\n" for row in range(7)))
    output = init(tickets, "--force", "--by", "text").output
    assert "left out, because they cannot be read or lack text or label: 7" in output
    assert load_params().data.split.by == "text"
    assert sum(map(len, downloaded().values())) == 40
