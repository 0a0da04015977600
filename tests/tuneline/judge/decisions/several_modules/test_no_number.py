"""A model that gives NaN for a row: the row has no answer, and the others have theirs."""

import json
import shutil

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from typer.testing import CliRunner

from tests.exported_pipeline import published_pipeline
from tests.service import running_service
from tuneline.cli import app
from tuneline.core.stage.records import file_hash
from tuneline.judge.decisions.rule import NO_NUMBER
from tuneline.serve.text_classifier import TextClassifier

BAD = ("refund", "parcel")
GOOD = ("invoice", "late payment")


@pytest.fixture(scope="module", params=["classification", "regression"])
def damaged(request, tmp_path_factory):
    """A published model in which the weights of the token ``refund`` are NaN, and the undamaged one."""
    whole = published_pipeline(tmp_path_factory, request.param) / "models/onnx"
    folder = tmp_path_factory.mktemp("damaged") / "onnx"
    shutil.copytree(whole, folder)
    vocabulary = TextClassifier.load(folder).encoder.tokenizer
    model = onnx.load(folder / "model.onnx")
    for tensor in model.graph.initializer:
        if tensor.dims[:1] == [vocabulary.get_vocab_size()]:
            values = numpy_helper.to_array(tensor).copy()
            values[vocabulary.token_to_id("refund")] = np.nan
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    onnx.save(model, folder / "model.onnx")

    record = json.loads((folder / "export.json").read_text())
    record["models"]["fp32"]["sha256"]["model.onnx"] = file_hash(folder / "model.onnx")
    del record["probes"]
    (folder / "export.json").write_text(json.dumps(record))
    return folder, whole


def answered(prediction):
    return (prediction.label, prediction.number, prediction.reason)


def test_program_gives_no_answer_to_that_row_alone(damaged):
    folder, whole = damaged
    predictions = TextClassifier.load(folder).predict([GOOD, BAD, GOOD])
    expected = answered(TextClassifier.load(whole).predict_one(GOOD))
    assert list(map(answered, predictions)) == [expected, (None, None, NO_NUMBER), expected]
    assert (predictions[1].probability, predictions[1].scores) == (None, {})


def test_service_answers_the_other_rows(damaged):
    rows = [list(GOOD), list(BAD)]
    with running_service(damaged[0]) as service:
        good, bad = service.post("/v1/predictions", {"rows": rows}).json()["predictions"]
        assert (good["reason"], bad["reason"]) == (None, NO_NUMBER)
        good, bad = service.post("/predict", {"inputs": rows}).json()
        assert good
        assert bad == []
        assert service.post("/v1/why", {"row": rows[1]}).status_code == 200


def test_command_writes_no_answer_and_counts_the_row(damaged, tmp_path):
    file = tmp_path / "in.csv"
    file.write_text("subject,body\ninvoice,late payment\nrefund,parcel\n")
    options = ["--model", str(damaged[0]), "--output-format", "csv", "--why"]
    done = CliRunner().invoke(app, ["predict", str(file), *options])
    assert done.exit_code == 0, done.output
    _, good, bad = done.stdout.splitlines()
    assert good.split(",")[1]
    assert set(bad.split(",")[1:-1]) == {""}
    assert f"1 of 2 rows (50.0%) got no answer: {NO_NUMBER}" in done.stderr


def test_evaluation_of_a_file_names_the_row(damaged, tmp_path, monkeypatch):
    folder, whole = damaged
    monkeypatch.chdir(whole.parents[1])
    label = (TextClassifier.load(folder).task.class_names or ("1.0",))[0]
    file = tmp_path / "in.csv"
    file.write_text(f"subject,body,queue\ninvoice,late payment,{label}\nrefund,parcel,{label}\n")
    done = CliRunner().invoke(app, ["evaluate", str(file), "--model", str(folder)])
    assert done.exit_code == 1, done.output
    assert f"{file}, line 3: {NO_NUMBER}." in done.output
