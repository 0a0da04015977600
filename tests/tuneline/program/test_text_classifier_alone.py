"""A program that predicts needs four packages, and what these need."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.exported_pipeline import published_pipeline
from tuneline.program.text_classifier import TextClassifier

PACKAGES = ("numpy", "onnxruntime", "pydantic", "tokenizers")
PROGRAM = """
import json
import sys
from importlib.metadata import distributions

import numpy as np
from tuneline import TextClassifier
from tuneline.tasks import Multilabel

answers = {}
for folder in sys.argv[1:]:
    model = TextClassifier.load(folder, threads=1)
    texts = [("parcel " * 40, "the parcel never came"), ("invoice", "")]
    answers[folder] = [vars(row) for row in model.predict(texts)]
several = Multilabel(("a", "b")).scores(np.array([[0.5, -3]], np.float32))
installed = sorted(package.name for package in distributions())
print(json.dumps({"answers": answers, "several": several.tolist(), "installed": installed}))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """Return the Python of an environment that has these packages alone, in the versions of the lock."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed: `make setup` does it")
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    lock = ROOT / "requirements.txt"
    install = [uv, "pip", "install", "--quiet", "--python", folder / "bin/python", "-c", lock, *PACKAGES]
    # from uv's cache, which has them since the set-up; else from the registry
    if subprocess.run([*install, "--offline"], check=False, capture_output=True).returncode:
        done = subprocess.run(install, check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"neither uv's cache nor a registry has the packages: {done.stderr}")
    return folder / "bin/python"


@pytest.mark.slow
def test_program_predicts_with_four_packages_and_their_dependencies(python, tmp_path_factory):
    projects = [
        published_pipeline(tmp_path_factory, "classification"),
        published_pipeline(tmp_path_factory, "classification", "windows"),
        published_pipeline(tmp_path_factory, "regression"),
    ]
    folders = [str(project / "models/onnx") for project in projects]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [python, "-c", PROGRAM, *folders],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        cwd=python.parent,
    )
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert not {"pyarrow", "scipy", "torch", "transformers", "pandas"} & set(printed["installed"])

    texts = [("parcel " * 40, "the parcel never came"), ("invoice", "")]
    for folder in folders:
        expected = TextClassifier.load(folder, threads=1).predict(texts)
        assert printed["answers"][folder] == json.loads(json.dumps([vars(row) for row in expected]))
    np.testing.assert_allclose(printed["several"], [[0.6224593312018546, 0.04742587317756678]], rtol=1e-15)
