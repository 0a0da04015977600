"""ONNX Runtime's real kernels for processors that this machine is not, under QEMU's emulation of their instructions."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import stages.export.__main__
from stages.export.graph import to_onnx
from stages.export.quantization import to_dynamic_int8, to_static_int8
from stages.export.record import embed
from stages.export.storage import save
from tests.conftest import ROOT
from tests.small_pipeline import tiny_model, write_pipeline
from tuneline.batches import TokenizedSplit, length_sorted_batches
from tuneline.onnx.session import OnnxClassifier, logits_of, processor_saturates

QEMU = shutil.which("qemu-x86_64")
needs_qemu = pytest.mark.skipif(QEMU is None, reason="qemu-x86_64 is not installed (Debian: apt-get install qemu-user)")
MODELS = ["dynamic-7", "dynamic-8", "static-7", "static-8"]
"""Way of quantizing, and bits of the weights."""
RUN_MODELS = """
import sys
from pathlib import Path
import numpy as np
from tuneline.batches import TokenizedSplit
from tuneline.onnx.session import OnnxClassifier, logits_of, open_session, processor_saturates, session_options
split = TokenizedSplit.read(Path("data/tokenized/test.parquet"))
found = {"saturates": processor_saturates()}
for path in Path().glob("*.onnx"):
    model = OnnxClassifier(path)
    found[f"{path.stem} loaded"] = logits_of(model, split, 0)
    model._session = open_session(path, session_options())
    found[f"{path.stem} plain"] = logits_of(model, split, 0)
np.savez(sys.argv[1], **found)
"""


def emulated(processor, *words, folder):
    """Run Python as on another processor."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [str(QEMU), "-cpu", processor, sys.executable, *words]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with an int8 model of each kind."""
    folder = tmp_path_factory.mktemp("processors")
    write_pipeline(folder)
    split = TokenizedSplit.read(folder / "data/tokenized/test.parquet")
    fp32 = to_onnx(tiny_model("bert", 3), ["input_ids", "attention_mask", "token_type_ids"], opset=20)
    save(fp32, folder / "fp32.onnx")
    for name in MODELS:
        way, bits = name.split("-")
        batches = (split.pad(rows, 0) for rows in length_sorted_batches(split.lengths, 16))
        model = to_dynamic_int8(fp32, bits == "7") if way == "dynamic" else to_static_int8(fp32, bits == "7", batches)
        embed(model, {"precision": "int8", "quantization": {"weight_bits": int(bits)}})
        save(model, folder / f"{name}.onnx")
    return folder


@pytest.fixture(scope="module")
def fp32(project):
    return logits_of(OnnxClassifier(project / "fp32.onnx"), TokenizedSplit.read(project / "data/tokenized/test.parquet"), 0)


@pytest.fixture(scope="module")
def haswell(project):
    """AVX2 without AVX-512 and VNNI: ONNX Runtime multiplies by PMADDUBSW."""
    emulated("Haswell", "-c", RUN_MODELS, "haswell.npz", folder=project)
    return np.load(project / "haswell.npz")


def agreement(logits, reference):
    return np.mean(logits.argmax(axis=1) == reference.argmax(axis=1))


@needs_qemu
def test_the_emulated_processor_clips_products(haswell):
    assert haswell["saturates"]


@needs_qemu
@pytest.mark.parametrize("model", MODELS)
def test_predictions_agree_with_fp32_on_a_processor_without_vnni(haswell, fp32, model):
    """Also those of 8 bits: the session multiplies exactly where the processor would clip."""
    assert agreement(haswell[f"{model} loaded"], fp32) >= 0.9


@needs_qemu
@pytest.mark.parametrize("model", MODELS)
def test_a_plain_session_needs_weights_in_7_bits(haswell, fp32, model):
    """What a server does that knows nothing of this project."""
    assert (agreement(haswell[f"{model} plain"], fp32) >= 0.9) == model.endswith("7")


@needs_qemu
def test_predictions_agree_with_fp32_on_a_processor_without_avx(project, fp32):
    emulated("Nehalem", "-c", RUN_MODELS, "nehalem.npz", folder=project)
    nehalem = np.load(project / "nehalem.npz")
    assert all(agreement(nehalem[f"{model} loaded"], fp32) >= 0.9 for model in MODELS)


@pytest.mark.parametrize("model", MODELS)
def test_exact_products_are_taken_only_where_the_processor_clips(project, model):
    assert OnnxClassifier(project / f"{model}.onnx").exact_products == (model.endswith("8") and processor_saturates())


@needs_qemu
def test_predict_warns_of_8_bits_on_a_processor_that_clips_them(project, tmp_path, monkeypatch):
    monkeypatch.chdir(project)
    stages.export.__main__.main()
    folder = project / "models/candidates"
    record = json.loads((folder / "export.json").read_text())
    (tmp_path / "in.jsonl").write_text('{"subject": "the parcel", "body": "is missing"}\n')
    words = (
        "-c",
        "from tuneline.cli import app; app()",
        "predict",
        str(tmp_path / "in.jsonl"),
        "--precision",
        "int8",
        "--model",
        str(folder),
    )
    model = to_dynamic_int8(to_onnx(tiny_model("bert", 3), ["input_ids", "attention_mask", "token_type_ids"], opset=20), False)
    embed(
        model, {**{key: value for key, value in record.items() if key != "models"}, "precision": "int8", "quantization": {"weight_bits": 8}}
    )
    save(model, folder / "model.int8.onnx")
    done = emulated("Haswell", *words, folder=project)
    assert "this processor clips their products" in done.stderr
    assert json.loads(done.stdout)["row"] == 1
