"""The code in docs/serving.md that needs nothing of this project predicts as it does."""

import re

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.exported_pipeline import published_pipeline
from tests.small_pipeline import WORDS
from tuneline.onnx.text_classifier import TextClassifier

PAGE = (ROOT / "docs/serving.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def run_example(project, monkeypatch, word):
    """Run the example that has a word, in a project with a model; return its names."""
    (code,) = [example for example in EXAMPLES if word in example]
    monkeypatch.chdir(project)
    names = {}
    exec(compile(code, "serving.md", "exec"), names)  # noqa: S102 - it is of the docs
    return names


def test_example_of_rows_predicts_as_the_classifier_of_the_project(tmp_path_factory, monkeypatch):
    project = published_pipeline(tmp_path_factory, "classification")
    names = run_example(project, monkeypatch, "enable_padding")
    deployed = TextClassifier.load(project / "models/onnx", threads=1)
    np.testing.assert_allclose(names["probabilities"], deployed.predict(names["rows"], 8), atol=1e-5)


@pytest.mark.parametrize("words", [1, 10, 40, 80, 300])
def test_example_of_windows_predicts_as_the_classifier_of_the_project(tmp_path_factory, monkeypatch, words):
    project = published_pipeline(tmp_path_factory, "classification", "windows")
    names = run_example(project, monkeypatch, "windows_of")
    deployed = TextClassifier.load(project / "models/onnx", threads=1)
    texts = ("the parcel", " ".join((WORDS * 20)[:words]))
    expected = deployed.logits(deployed.encode([texts]), 8)[0]
    np.testing.assert_allclose(names["logits_of"](*texts), expected, atol=1e-4)
    texts = texts[::-1]
    expected = deployed.logits(deployed.encode([texts]), 8)[0]
    np.testing.assert_allclose(names["logits_of"](*texts), expected, atol=1e-4)
