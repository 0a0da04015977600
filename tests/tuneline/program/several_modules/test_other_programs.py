"""What people run already takes our models: a program of the registries, in an environment of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.exported_pipeline import published_pipeline
from tests.small_pipeline import WORDS
from tuneline import TextClassifier

PACKAGES = ("optimum-onnx[onnxruntime]==0.1.0", "transformers==4.57.6", "torch==2.13.0", "numpy<2.4")
PROGRAM = """
import json
import sys
from optimum.onnxruntime import ORTModelForSequenceClassification
from transformers import AutoTokenizer, pipeline

folder, rows = sys.argv[1], json.loads(sys.argv[2])
found = {}
for file in ("model.onnx", "model.int8.onnx"):
    model = ORTModelForSequenceClassification.from_pretrained(folder, file_name=file)
    classify = pipeline("text-classification", model=model, tokenizer=AutoTokenizer.from_pretrained(folder))
    found[file] = [classify({"text": a, "text_pair": b})["label"] for a, b in rows]
trained = pipeline("text-classification", sys.argv[3])
found["classifier"] = [trained({"text": a, "text_pair": b})["label"] for a, b in rows]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """Return the Python of an environment with optimum."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed: `make setup` does it")
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    environment = dict(os.environ)
    environment.setdefault("UV_FIND_LINKS", environment.get("PIP_FIND_LINKS", ""))
    install = [uv, "pip", "install", "--quiet", "--python", folder / "bin/python", *PACKAGES]
    done = subprocess.run(install, check=False, capture_output=True, text=True, env=environment)
    if done.returncode:
        pytest.skip(f"the packages cannot be had: {done.stderr}")
    return folder / "bin/python"


@pytest.mark.slow
def test_optimum_and_transformers_give_the_labels_of_the_program(python, tmp_path_factory):
    project = published_pipeline(tmp_path_factory, "classification")
    folder = project / "models/onnx"
    rows = [(" ".join(WORDS[number : number + 5]), WORDS[number % 3]) for number in range(30)]
    arguments = [str(folder), json.dumps(rows), str(project / "models/classifier")]
    environment = {"PATH": os.environ["PATH"], "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}
    done = subprocess.run(
        [python, "-c", PROGRAM, *arguments], check=False, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for file, labels in found.items():
        precision = "int8" if "int8" in file else "fp32"
        predictions = TextClassifier.load(folder, precision, threads=1).predict(rows, batch_size=1)
        assert labels == [prediction.label for prediction in predictions]
