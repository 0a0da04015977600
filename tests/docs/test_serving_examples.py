"""The code in docs/serving.md that needs nothing of this project predicts as it does."""

import json
import os
import re
import shutil

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.exported_pipeline import published_pipeline
from tuneline.model.tasks.multilabel import Multilabel
from tuneline.serve.text_classifier import TextClassifier

PAGE = (ROOT / "docs/serving.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def run_example(project, monkeypatch, word):
    """Run the example that has a word, in a project with a model; return its names."""
    (code,) = [example for example in EXAMPLES if word in example]
    monkeypatch.chdir(project)
    names = {}
    exec(compile(code, "serving.md", "exec"), names)  # noqa: S102 - it is of the docs
    return names


COLUMNS = {"one text": ("body",), "a pair": ("subject", "body")}


@pytest.mark.parametrize("columns", COLUMNS.values(), ids=COLUMNS)
def test_example_of_rows_predicts_as_the_classifier_of_the_project(tmp_path_factory, monkeypatch, columns):
    project = published_pipeline(tmp_path_factory, "classification", columns=columns)
    names = run_example(project, monkeypatch, "enable_padding")
    deployed = TextClassifier.load(project / "models/onnx", threads=1)
    np.testing.assert_allclose(
        names["probabilities"], deployed.outputs(deployed.encode(names["rows"]), 8), atol=1e-5
    )
    threads = names["session"].get_session_options().intra_op_num_threads
    assert threads == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("at_least_one", [False, True])
def test_example_of_rows_gives_several_labels_by_their_own_probabilities(
    tmp_path_factory, tmp_path, monkeypatch, at_least_one
):
    project = published_pipeline(tmp_path_factory, "classification", columns=("body",))
    shutil.copytree(project / "models/onnx", tmp_path / "models/onnx")
    record = tmp_path / "models/onnx/export.json"
    about = json.loads(record.read_text())
    task = Multilabel(tuple(about["labels"]), (0.9999, 0.9, 0.001), at_least_one, (1.0, 2.0, 0.5))
    about |= {"task": "multilabel", "decisions": task.decisions}
    about["models"]["fp32"].pop("decisions", None)
    record.write_text(json.dumps(about))

    names = run_example(tmp_path, monkeypatch, "enable_padding")
    np.testing.assert_allclose(names["probabilities"], task.scores(names["logits"]), atol=1e-6)
    assert names["answers"] == [task.value(row) for row in task.predictions(names["logits"])]


def test_example_of_rows_gives_the_number_of_a_regression(tmp_path_factory, monkeypatch):
    project = published_pipeline(tmp_path_factory, "regression")
    names = run_example(project, monkeypatch, "enable_padding")
    (prediction,) = TextClassifier.load(project / "models/onnx", threads=1).predict(names["rows"])
    assert names["answers"] == pytest.approx([prediction.number], abs=1e-5)


def test_three_lines_of_a_program_predict(tmp_path_factory, monkeypatch):
    project = published_pipeline(tmp_path_factory, "classification", columns=("subject", "body"))
    names = run_example(project, monkeypatch, "prediction = TextClassifier")
    assert names["prediction"].label in names["prediction"].scores
