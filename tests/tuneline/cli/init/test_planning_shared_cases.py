"""The files of ``../shared/data/cases/columns``: columns whose meaning is easily mistaken."""

import pytest

from tests.conftest import SHARED
from tuneline.cli.init import ask_and_plan
from tuneline.columns.readings import OpenQuestionError, UserChoices
from tuneline.params.loading import load_params
from tuneline.runtime.errors import DataError

FOLDER = SHARED / "data/cases/columns"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="needs ../shared/data/cases/columns")


def planned(name, **choices):
    return ask_and_plan([FOLDER / name], UserChoices(**choices), load_params(), may_ask=False)


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("lfs.csv", "is a pointer of Git LFS"),
        ("page.csv", "is a web page"),
        ("par.jsonl", "'text' has lists or objects"),
        ("three.csv", "some labels each"),
    ],
)
def test_file_that_is_no_table_of_texts_is_called_by_its_name(name, problem):
    with pytest.raises(DataError, match=problem):
        planned(name)


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("votes.jsonl", "--label overall --task classification"),
        ("groups.csv", "--label column_3 --task classification"),
    ],
)
def test_columns_that_can_be_read_in_several_ways_are_a_question(name, options):
    with pytest.raises(OpenQuestionError) as asked:
        planned(name)
    assert options in [answer.options for answer in asked.value.answers]
