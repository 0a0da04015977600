"""ONNX Runtime's kernels for other processors, emulated by QEMU."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import stages.export.__main__
from stages.export.__main__ import embed
from stages.export.graph import save_model, to_onnx
from stages.export.int8 import to_dynamic_int8, to_static_int8
from tests.conftest import ROOT
from tests.exported_graph import exported_graph
from tests.records import export_record
from tests.small_pipeline import tiny_model, write_pipeline
from tuneline.core.hashes import file_hash
from tuneline.core.tables import SplitReader
from tuneline.model.batches import length_sorted_batches
from tuneline.model.tokenized_splits import TokenizedSplit
from tuneline.onnx.records import ExportRecord
from tuneline.onnx.session import OnnxClassifier, logits_of, processor_saturates

QEMU = shutil.which("qemu-x86_64")
needs_qemu = pytest.mark.skipif(
    QEMU is None, reason="qemu-x86_64 is not installed (Debian: apt-get install qemu-user)"
)
MODELS = ["dynamic-7", "dynamic-8", "static-7", "static-8"]
"""Quantization method and bits of the weights."""
RUN_MODELS = """
import sys
from pathlib import Path
import numpy as np
from tuneline.model.tokenized_splits import TokenizedSplit
from tuneline.core.tables import SplitReader
from tuneline.onnx.session import OnnxClassifier, logits_of, open_session
from tuneline.onnx.session import processor_saturates, session_options
split = TokenizedSplit.read(SplitReader.open(Path("data/tokenized"), "test", "tokenize"))
results = {"saturates": processor_saturates()}
for path in Path().glob("*.onnx"):
    model = OnnxClassifier(path)
    results[f"{path.stem} loaded"] = logits_of(model, split, split.task.outputs, 0)
    model._session = open_session(path, session_options())
    results[f"{path.stem} plain"] = logits_of(model, split, split.task.outputs, 0)
np.savez(sys.argv[1], **results)
"""


def run_emulated(processor, *arguments, folder):
    """Run Python on an emulated processor."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [str(QEMU), "-cpu", processor, sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with an int8 model of each method and number of bits."""
    folder = tmp_path_factory.mktemp("processors")
    write_pipeline(folder)
    split = TokenizedSplit.read(SplitReader.open(folder / "data/tokenized", "test", "tokenize"))
    fp32 = exported_graph(tmp_path_factory, "bert")
    save_model(fp32, folder / "fp32.onnx")
    for name in MODELS:
        method, bits = name.split("-")
        batches = (split.pad(rows, 0) for rows in length_sorted_batches(split.lengths, 16))
        model = (
            to_dynamic_int8(fp32, bits == "7")
            if method == "dynamic"
            else to_static_int8(fp32, bits == "7", batches)
        )
        embed(model, export_record(), precision="int8", quantization={"weight_bits": int(bits)})
        save_model(model, folder / f"{name}.onnx")
    return folder


@pytest.fixture(scope="module")
def fp32(project):
    split = TokenizedSplit.read(SplitReader.open(project / "data/tokenized", "test", "tokenize"))
    return logits_of(OnnxClassifier(project / "fp32.onnx"), split, split.task.outputs, 0)


@pytest.fixture(scope="module")
def haswell(project):
    """Logits on a processor with AVX2 but without AVX-512 and VNNI, where ONNX Runtime multiplies with
    PMADDUBSW."""
    run_emulated("Haswell", "-c", RUN_MODELS, "haswell.npz", folder=project)
    return np.load(project / "haswell.npz")


def agreement(logits, reference):
    return np.mean(logits.argmax(axis=1) == reference.argmax(axis=1))


@pytest.mark.slow
@needs_qemu
def test_products_saturate_on_the_emulated_processor(haswell):
    assert haswell["saturates"]


@pytest.mark.slow
@needs_qemu
@pytest.mark.parametrize("model", MODELS)
def test_predictions_agree_with_fp32_on_a_processor_without_vnni(haswell, fp32, model):
    """With 8-bit weights too, because the session uses exact products where others would saturate."""
    assert agreement(haswell[f"{model} loaded"], fp32) >= 0.9


@pytest.mark.slow
@needs_qemu
@pytest.mark.parametrize("model", MODELS)
def test_plain_session_needs_weights_in_7_bits(haswell, fp32, model):
    """A server without this project's code runs models in a plain session."""
    assert (agreement(haswell[f"{model} plain"], fp32) >= 0.9) == model.endswith("7")


@pytest.mark.slow
@needs_qemu
def test_predictions_agree_with_fp32_on_a_processor_without_avx(project, fp32):
    run_emulated("Nehalem", "-c", RUN_MODELS, "nehalem.npz", folder=project)
    nehalem = np.load(project / "nehalem.npz")
    assert all(agreement(nehalem[f"{model} loaded"], fp32) >= 0.9 for model in MODELS)


@pytest.mark.parametrize("model", MODELS)
def test_exact_products_are_used_only_if_products_saturate(project, model):
    assert OnnxClassifier(project / f"{model}.onnx").exact_products == (
        model.endswith("8") and processor_saturates()
    )


@pytest.mark.slow  # `tuneline predict`, emulated
@needs_qemu
def test_predict_warns_of_8_bit_weights_if_products_saturate(project, tmp_path, monkeypatch):
    monkeypatch.chdir(project)
    stages.export.__main__.main()
    folder = project / "models/candidates"
    record = ExportRecord.read(folder / "export.json")
    (tmp_path / "in.jsonl").write_text('{"subject": "the parcel", "body": "is missing"}\n')
    arguments = (
        "-c",
        "from tuneline.cli import app; app()",
        "predict",
        str(tmp_path / "in.jsonl"),
        "--precision",
        "int8",
        "--model",
        str(folder),
    )
    model = to_dynamic_int8(
        to_onnx(tiny_model("bert", 3), ["input_ids", "attention_mask", "token_type_ids"], opset=20), False
    )
    embed(model, record, precision="int8", quantization={"weight_bits": 8})
    save_model(model, folder / "model.int8.onnx")
    exported = json.loads((folder / "export.json").read_text())
    exported["models"]["int8"]["sha256"] = {"model.int8.onnx": file_hash(folder / "model.int8.onnx")}
    (folder / "export.json").write_text(json.dumps(exported))
    done = run_emulated("Haswell", *arguments, folder=project)
    assert "this processor clips their products" in done.stderr
    assert json.loads(done.stdout)["row"] == 1
