import numpy as np
import pytest

from tests.custom_functions import write_functions
from tuneline.core.params.section import FunctionName
from tuneline.core.runtime.errors import ParamsError
from tuneline.judge.metrics.functions import load_function

LOGITS, LABELS = np.zeros((2, 3)), np.zeros(2)


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Return a function that writes files of a project and loads ``project/own.py:score`` from them."""
    monkeypatch.chdir(tmp_path)

    def load(code, pipeline="stages: {train: {deps: [project]}}", **files):
        write_functions(
            tmp_path,
            {"project/own.py": code, **{f"project/{name}.py": text for name, text in files.items()}},
            pipeline,
        )
        return load_function("train.loss", FunctionName.parse("train.loss", "project/own.py:score"))

    return load


def test_function_is_called_with_its_defaults(load):
    assert load("def score(logits, labels, by=3): return by")(LOGITS, LABELS) == 3


def test_files_are_those_that_the_function_imports(load):
    code = "from project.near import one\ndef score(logits, labels): return one"
    function = load(code, near="one = 1", unrelated="")
    assert [path.as_posix() for path in function.files] == [
        "project/__init__.py",
        "project/near.py",
        "project/own.py",
    ]


def test_imported_file_that_the_stage_does_not_list_is_refused(load):
    pipeline = "stages: {train: {deps: [project/__init__.py, project/own.py]}}"
    with pytest.raises(
        ParamsError,
        match=r"`- project/near\.py`",
    ):
        load("import project.near\ndef score(logits, labels): return 1", pipeline, near="")


def test_edited_file_is_imported_again(load):
    """Also after an edit of the same size within a second, which bytecode would hide, and of a file that is
    imported."""
    assert (
        load("from project.near import one as score", near="def one(logits, labels): return 1")(
            LOGITS, LABELS
        )
        == 1
    )
    assert (
        load("from project.near import one as score", near="def one(logits, labels): return 2")(
            LOGITS, LABELS
        )
        == 2
    )


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "def score(logits): ...",
            r"cannot be called as score\(logits, labels\): too many positional arguments",
        ),
        ("score = 1", "has no function 'score'"),
    ],
)
def test_unsuitable_function_is_an_error_with_parameter_file_and_reason(load, code, message):
    with pytest.raises(ParamsError, match=rf"train\.loss: project/own\.py.*{message}"):
        load(code)
