"""The files of the user are only read, whatever folders and links they are in."""

import os
import subprocess

import pytest
from typer.testing import CliRunner

from tests.dvc_files import init_dvc
from tuneline.cli import app
from tuneline.core.params.loading import read_yaml
from tuneline.core.repository.git import missing, unversioned

UNLABELLED = "id,text\n1,what is this\n2,and what is that\n"


@pytest.fixture
def init(project):
    """Run the command and return its result, after a check that no file that was there before has changed."""

    def run(*words):
        before = {
            path: path.read_bytes()
            for path in project.rglob("*")
            if path.is_file() and path.name != "params.yaml"
        }
        links = {path: path.readlink() for path in project.rglob("*") if path.is_symlink()}
        done = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["init", *map(str, words), "--force"])
        assert {path: path.read_bytes() for path in before} == before
        assert {path: path.readlink() for path in links} == links
        return done

    return run


@pytest.fixture
def folder(project):
    (project / "data/source/mine").mkdir(parents=True)
    return project / "data/source/mine"


def refused(done, project, *messages):
    assert done.exit_code == 1
    assert all(message in done.output for message in messages), done.output
    assert "source: sample" in (project / "params.yaml").read_text()


def test_rows_without_labels_stay_in_a_folder_of_originals(init, folder, tickets):
    """A command that wrote what it would train on deleted all others: of 320 rows, 195 were left."""
    tickets.rename(folder / "train.csv")
    (folder / "test.csv").write_text(UNLABELLED)
    done = init(folder / "train.csv", folder / "test.csv")
    assert done.exit_code == 0, done.output
    assert {path.name for path in folder.iterdir()} == {"train.csv", "test.csv"}


@pytest.mark.promise("your-originals")
def test_copy_that_would_replace_a_file_beside_the_original_is_refused(init, project, folder, tickets):
    tickets.rename(folder / "may.csv")
    (folder / "all.csv").write_text("id,text,label\n1,another original,damage\n")
    done = init(folder / "may.csv", "--name", "mine")
    refused(
        done,
        project,
        "data/source/mine/all.csv is among your own files",
        "may.csv would replace it",
        "--name NAME",
    )


@pytest.mark.parametrize("exists", [True, False])
def test_copy_onto_a_link_is_refused(init, project, folder, tickets, exists):
    if exists:
        (project / "archive.csv").write_text("id,text,label\n1,another original,damage\n")
    (folder / "all.csv").symlink_to(project / "archive.csv")
    refused(init(tickets, "--name", "mine"), project, "or behind a link", "archive.csv")


@pytest.mark.promise("your-originals")
def test_copy_onto_another_name_of_an_original_is_refused(init, project, folder, tickets):
    (project / "my-test.csv").write_bytes(tickets.read_bytes())
    tickets.rename(project / "my-train.csv")
    with (project / "my-test.csv").open("a") as file:
        file.write("99,one more,damage\n")
    os.link(project / "my-test.csv", folder / "train.csv")
    done = init(project / "my-train.csv", project / "my-test.csv", "--name", "mine")
    refused(done, project, "data/source/mine/train.csv is among your own files")


@pytest.fixture
def repository(project, root):
    """The project as a repository of git and DVC, which ignores what the product ignores."""
    (project / ".gitignore").write_bytes((root / ".gitignore").read_bytes())
    subprocess.run(["git", "init", "--quiet"], cwd=project, check=True)
    init_dvc(project)
    return project


def run_init(*words):
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["init", *map(str, words), "--force"])
    assert done.exit_code == 0, done.output
    return done.output


def test_data_and_weights_are_added_to_dvc_and_said_before(repository, tickets, checkpoint):
    output = run_init(tickets, "--checkpoint", checkpoint)
    assert f"DVC keeps {checkpoint}, data/source/tickets (dvc add)" in output
    assert output.index("DVC keeps") < output.index("Written:")
    assert (repository / "data/source/tickets.dvc").is_file()
    assert (repository / f"{checkpoint}.dvc").is_file()
    assert unversioned(repository) == []
    assert missing(repository, read_yaml(repository / "params.yaml")) == []
