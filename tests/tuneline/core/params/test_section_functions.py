import pytest

from tests.custom_functions import EXAMPLES, PIPELINE, STAGES, write_functions
from tests.params import write_params
from tuneline.core.params.loading import load_params
from tuneline.core.runtime.errors import ParamsError


@pytest.fixture
def load(tmp_path):
    """Return a function that reads parameters in a project with the examples."""

    def load(files=EXAMPLES, pipeline=PIPELINE, **sections):
        write_functions(tmp_path, files, pipeline)
        write_params(tmp_path, **sections)
        return load_params(tmp_path / "params.yaml")

    return load


def test_functions_of_all_parameters_are_found(load):
    train = {"loss": "project/losses.py:focal", "metric": "project/metrics.py:cost"}
    evaluate = {
        "metrics": ["project/metrics.py:balanced_accuracy"],
        "slices": ["project/slices.py:long_questions"],
    }
    params = load(train=train, validate={"own": ["project/checks.py:no_phone_numbers"]}, evaluate=evaluate)
    assert [(parameter, str(name)) for parameter, name in params.functions] == [
        ("train.loss", "project/losses.py:focal"),
        ("train.metric", "project/metrics.py:cost"),
        ("validate.own", "project/checks.py:no_phone_numbers"),
        ("evaluate.metrics", "project/metrics.py:balanced_accuracy"),
        ("evaluate.slices", "project/slices.py:long_questions"),
    ]


def test_stages_depend_on_the_files_of_the_examples(load):
    load(
        pipeline=STAGES,
        train={"loss": "project/losses.py:focal"},
        validate={"own": ["project/checks.py:no_phone_numbers"]},
        evaluate={
            "metrics": ["project/metrics.py:balanced_accuracy"],
            "slices": ["project/slices.py:long_questions"],
        },
    )


@pytest.mark.parametrize(
    "text",
    [
        "focal",
        "losses.py:focal",
        "/project/losses.py:f",
        "project/../x.py:f",
        "project/a-b.py:f",
        "other/x.py:f",
        "project/x.py:",
        "x:y",
    ],
)
def test_name_that_is_no_function_in_the_folder_project_is_refused(load, text):
    with pytest.raises(
        ParamsError,
        match=r"train\.loss",
    ):
        load(train={"loss": text})


@pytest.mark.parametrize(
    "text",
    [
        "/any/path.py",
        "metrics/odd_one",
        "odd_one.py",
        "../x",
        "somebody/metric",
        "accuracy@refs/pr/3",
        "",
        "a:../b",
    ],
)
def test_metric_that_would_run_a_program_of_no_commit_is_refused(load, text):
    with pytest.raises(
        ParamsError,
        match=r"evaluate\.metrics",
    ):
        load(evaluate={"metrics": [text]})


def test_missing_file_is_named_before_any_code_runs(load):
    with pytest.raises(ParamsError, match=r"train\.loss: project/mine\.py does not exist"):
        load({}, train={"loss": "project/mine.py:focal"})


def test_function_that_its_file_lacks_is_an_error_before_any_stage_runs_it(load):
    with pytest.raises(ParamsError, match=r"evaluate\.slices: project/slices\.py has no function 'short'"):
        load(evaluate={"slices": ["project/slices.py:short"]})


@pytest.mark.parametrize(
    ("section", "key", "names"),
    [
        ("evaluate", "slices", ["project/a.py:f", "project/b.py:f"]),
        ("evaluate", "metrics", ["project/a.py:f", "project/b.py:f"]),
        ("validate", "own", ["project/a.py:leakage"]),
    ],
)
def test_function_with_the_name_of_another_one_is_refused(load, section, key, names):
    with pytest.raises(ParamsError, match=rf"{section}\.{key}: {names[-1]} has the name of another one"):
        load(**{section: {key: names}})


def test_file_that_its_stage_does_not_list_is_refused_with_the_line_to_add(load):
    pipeline = "stages: {train: {deps: [project/losses.py]}}"
    assert load(pipeline=pipeline, train={"loss": "project/losses.py:focal"}).train.loss
    with pytest.raises(
        ParamsError,
        match=r"`- project/metrics\.py`",
    ):
        load(pipeline=pipeline, train={"metric": "project/metrics.py:cost"})
