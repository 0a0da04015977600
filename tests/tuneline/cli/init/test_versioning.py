"""``tuneline init`` lets DVC keep data and weights, so that experiments and other machines have them."""

import subprocess

import pytest
from typer.testing import CliRunner

from tests.dvc_files import init_dvc
from tests.tuneline.cli.init.test_init import Terminal
from tuneline.cli import app
from tuneline.cli.doctor import check_files_versioned
from tuneline.core.yaml_files import read_yaml
from tuneline.repository.git import missing, unversioned
from tuneline.repository.git_hook import is_installed


@pytest.fixture
def repository(project, root):
    """The project as a repository of git and DVC, which ignores what the product ignores."""
    (project / ".gitignore").write_bytes((root / ".gitignore").read_bytes())
    subprocess.run(["git", "init", "--quiet"], cwd=project, check=True)
    init_dvc(project)
    return project


def init(*words):
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["init", *map(str, words), "--force"])
    assert done.exit_code == 0, done.output
    return done.output


def test_data_and_weights_are_added_to_dvc_and_said_before(repository, tickets, checkpoint):
    assert check_files_versioned(repository).level == "warning"
    output = init(tickets, "--checkpoint", checkpoint)
    assert f"DVC keeps {checkpoint}, data/source/tickets (dvc add)" in output
    assert output.index("DVC keeps") < output.index("Written:")
    assert (repository / "data/source/tickets.dvc").is_file()
    assert (repository / f"{checkpoint}.dvc").is_file()
    assert unversioned(repository) == []
    assert missing(repository, read_yaml(repository / "params.yaml")) == []
    assert check_files_versioned(repository).level == "ok"


def test_changed_data_is_added_again(repository, tickets):
    init(tickets)
    before = (repository / "data/source/tickets.dvc").read_text()
    tickets.write_text(tickets.read_text() + '99,"one more",damage\n')
    assert "DVC keeps data/source/tickets" in init(tickets)
    assert (repository / "data/source/tickets.dvc").read_text() != before
    assert "DVC keeps" not in init(tickets)


def test_failed_dvc_add_is_said_with_the_command(repository, tickets):
    (repository / ".dvc/config").write_text("[nonsense\n")
    output = init(tickets)
    assert "dvc add failed" in output
    assert "dvc add data/source/tickets" in output
    assert read_yaml(repository / "params.yaml")["data"]["path"] == "tickets"


@pytest.mark.parametrize("answer", ["y", "n"])
def test_hook_that_brings_data_is_offered(repository, tickets, monkeypatch, answer):
    monkeypatch.setattr("tuneline.cli.init.sys", Terminal)
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["init", str(tickets)], input=f"6\ny\n{answer}\n")
    assert done.exit_code == 0, done.output
    assert "Let git pull and git switch bring the data of .dvc files, too" in done.output
    assert is_installed(repository) == (answer == "y")
    assert ("python -m tuneline.repository.git_hook" in done.output) == (answer == "n")


def test_doctor_names_what_is_not_versioned(repository, tickets):
    (repository / "data/source/mine").mkdir(parents=True)
    tickets.rename(repository / "data/source/mine/all.csv")
    found = check_files_versioned(repository)
    assert found.level == "warning"
    assert "data/source/mine" in found.message
    assert found.hint == "dvc add 'data/source/mine'"
