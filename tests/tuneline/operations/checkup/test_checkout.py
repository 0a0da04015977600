"""What doctor says of a checkout."""

import pytest

from tests.dvc_files import init_dvc
from tests.params import change_params
from tests.project import Project
from tuneline.core.runtime.errors import ParamsError
from tuneline.operations.checkup import check_checkout


@pytest.fixture
def versioned(checkout) -> Project:
    """A checkout with DVC, whose pipeline is one stage that has run and is committed."""
    init_dvc(checkout)
    (checkout / "input").write_text("1")
    (checkout / "dvc.yaml").write_text("stages: {copy: {cmd: cp input out, deps: [input], outs: [out]}}\n")
    project = Project(checkout)
    project.run("dvc", "repro", "--quiet")
    project.commit("Start")
    return project


def problems(project: Project) -> list[tuple[str, str]]:
    return [(one.message, one.hint) for one in check_checkout(project.folder) if one.level != "ok"]


def test_checkout_in_order_has_no_problem(versioned):
    assert problems(versioned) == []


def test_invalid_parameters_are_named_by_key(versioned):
    change_params(versioned.folder, {"train.epochs": -1})
    versioned.commit("Wrong")
    with pytest.raises(ParamsError, match="epochs: input should be greater"):
        problems(versioned)


def test_files_that_a_commit_would_lack_are_named_with_the_command(versioned):
    (versioned.folder / "data/source").mkdir(parents=True)
    (versioned.folder / "data/source/train.csv").touch()
    (versioned.folder / ".gitignore").write_text("/data/source/*.csv\n")
    assert problems(versioned)[0][1] == "dvc add 'data/source/train.csv'"
