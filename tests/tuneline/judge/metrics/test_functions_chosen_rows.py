import numpy as np
import pyarrow as pa
import pytest

from tests.custom_functions import write_functions
from tuneline.core.params.section import FunctionName
from tuneline.core.runtime.errors import ParamsError
from tuneline.judge.metrics.functions import chosen_rows, load_function
from tuneline.model.tasks import Classification, Multilabel, Regression

CLASSES = Classification(("ham", "spam"))
TEXTS = pa.table({"subject": ["call 555 123 4567", "5 of 6?", None], "body": ["a", "b" * 200, "c"]})


@pytest.fixture
def choose(tmp_path, monkeypatch):
    """Return a function that calls ``own``, or a function of docs/custom-loss.md, on three rows."""
    monkeypatch.chdir(tmp_path)

    def choose(code=None, name="project/own.py:own", labels=(0, 1, -1), task=CLASSES):
        write_functions(tmp_path, **({} if code is None else {"files": {"project/own.py": code}}))
        function = load_function("validate.own", FunctionName.parse("own", name), "texts")
        rows = chosen_rows(function, TEXTS, np.array(labels, task.label_dtype), task, "test")
        assert rows.dtype == bool
        return rows.tolist()

    return choose


def test_examples_of_the_page_choose_rows_by_their_texts(choose):
    assert choose(name="project/checks.py:no_phone_numbers") == [True, False, False]
    assert choose(name="project/slices.py:long_questions") == [False, True, False]


@pytest.mark.parametrize(
    ("condition", "labels", "task", "expected"),
    [
        ("labels == 'spam'", (0, 1, -1), CLASSES, [False, True, False]),
        ("labels.isna()", (0, -1, -2), CLASSES, [False, True, True]),
        ("labels > 1", (0.5, 2.5, 3), Regression(), [False, True, True]),
        ("labels['spam']", ((1, 0), (1, 1), (-1, -1)), Multilabel(("ham", "spam")), [False, True, False]),
        ("[text == '' for text in texts['subject']]", (0, 1, 1), CLASSES, [False, False, True]),
    ],
)
def test_labels_are_names_or_numbers_and_a_missing_text_is_empty(choose, condition, labels, task, expected):
    assert choose(f"def own(texts, labels): return {condition}", labels=labels, task=task) == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("texts['title'] == ''", "fails for test: KeyError: 'title'\n  .*project/own.py, line 3"),
        ("texts['body'].str.len()", "returns Series of int64, shape .3,., for test, which has 3 rows"),
        ("[True]", "returns list of bool, shape .1,., for test"),
        ("True", "returns bool of bool, shape .., for test"),
        ("[[True], []]", "fails for test: ValueError"),
    ],
)
def test_unsuitable_result_is_an_error_with_parameter_function_and_line(choose, body, message):
    with pytest.raises(ParamsError, match=rf"validate\.own: project/own\.py:own {message}"):
        choose(f"\ndef own(texts, labels):\n    return {body}\n")


def test_function_of_other_arguments_is_refused(choose):
    with pytest.raises(ParamsError, match=r"cannot be called as own\(texts, labels\)"):
        choose("def own(texts): return []")
