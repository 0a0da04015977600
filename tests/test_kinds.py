"""Every question that a package asks of a kind of task has an answer for each kind."""

import importlib
import inspect
import re

import pytest

from tests.conftest import ROOT
from tuneline.model.tasks import TASKS

QUESTION = re.compile(r"^@singledispatch\ndef \w+\(\s*_?task: Task", re.MULTILINE)


def questions():
    """Return the functions that are divided by the kind of task."""
    found = []
    for folder in ("stages", "tuneline"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not QUESTION.search(path.read_text(encoding="utf-8")):
                continue
            module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
            for name, function in vars(module).items():
                if hasattr(function, "registry") and function.__module__ == module.__name__:
                    found.append(pytest.param(function, id=f"{module.__name__}.{name}"))
    return found


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("question", questions())
def test_question_has_an_answer_for_each_kind(question, kind):
    answer = question.dispatch(TASKS[kind])
    assert "raise NotImplementedError" not in inspect.getsource(answer)
