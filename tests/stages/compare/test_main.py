import json
import shutil

import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from onnx import numpy_helper

from stages.compare import main
from tests.exported_pipeline import exported_pipeline
from tests.params import change_params
from tuneline.core.runtime.errors import GateError, StageError
from tuneline.core.stage.records import file_hash
from tuneline.onnx.records import ExportRecord
from tuneline.onnx.usage import exported_file


@pytest.fixture(scope="module", params=["classification", "regression"])
def exported(request, tmp_path_factory):
    """The root of a project in which ``export`` has run."""
    return exported_pipeline(tmp_path_factory, request.param)


@pytest.fixture
def project(exported, tmp_path, monkeypatch):
    """Change into a copy of it."""
    folder = tmp_path / "project"
    shutil.copytree(exported, folder, symlinks=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def metric(project):
    return (
        "pearson" if "regression" in (project / "models/candidates/export.json").read_text() else "accuracy"
    )


def metrics(project):
    return json.loads((project / "metrics/compare.json").read_text())


def report(project):
    return json.loads((project / "reports/compare/comparison.json").read_text())


def published(project):
    return {path.name for path in (project / "models/onnx").glob("*")}


def spoil(path):
    """Flip the signs of the weights: the model still loads, and predicts wrongly."""
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) == 2:
            tensor.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(tensor), tensor.name))
        elif tensor.data_type == onnx.TensorProto.INT8 and len(tensor.dims) == 2:
            values = numpy_helper.to_array(tensor).astype(np.int32)
            tensor.CopyFrom(numpy_helper.from_array((-values).clip(-127, 127).astype(np.int8), tensor.name))
    onnx.save(model, path)
    record = json.loads((path.parent / "export.json").read_text())  # else it would be a damaged file
    for one in record["models"].values():
        one["sha256"] = {name: file_hash(path.parent / name) for name in one["sha256"]}
    (path.parent / "export.json").write_text(json.dumps(record))


def test_damaged_candidate_is_not_compared(project):
    path = project / "models/candidates/model.int8.onnx"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(StageError, match=r"model\.int8\.onnx"):
        main()


def test_models_that_agree_with_the_trained_model_are_published_unchanged(project, metric):
    main()
    names = {path.name for path in (project / "models/candidates").iterdir()}
    evidence = {"evidence.parquet"} if metric == "accuracy" else set()
    assert published(project) == names | evidence
    for name in names - {"export.json"}:
        assert (project / "models/onnx" / name).read_bytes() == (
            project / "models/candidates" / name
        ).read_bytes()
    result = metrics(project)
    assert result["fp32_max_abs_diff"] < 1e-5
    assert result["fp32_agreement"] == 1
    assert 0.8 <= result["int8_agreement"] <= 1
    compared = report(project)["models"]["int8"]
    low, high = compared[f"{metric}_drop_low"], compared[f"{metric}_drop_high"]
    assert low <= result[f"int8_{metric}_drop"] <= high


def test_published_record_has_the_metrics_of_each_model(project, metric):
    main()
    metrics = json.loads((project / "metrics/compare.json").read_text())
    candidates, published = (
        ExportRecord.read(project / f"models/{folder}/export.json") for folder in ("candidates", "onnx")
    )
    assert published.split == "test"
    trained = json.loads((project / "reports/compare/comparison.json").read_text())["trained"][metric]
    for name, model in published.models.items():
        drop = metrics[f"{name}_{metric}_drop"]
        assert trained - model.metrics[metric] == pytest.approx(drop, abs=2e-6)
    assert published.provenance == candidates.provenance


def test_second_run_writes_the_same_bytes(project):
    def outs():
        files = [
            project / "metrics/compare.json",
            *(project / "reports/compare").iterdir(),
            *(project / "models/onnx").iterdir(),
        ]
        return {path: path.read_bytes() for path in files}

    main()
    before = outs()
    main()
    assert outs() == before


def test_model_outside_its_tolerance_stops_the_pipeline_after_the_report(project):
    main()
    before = published(project)
    spoil(project / "models/candidates/model.onnx")
    with pytest.raises(GateError, match=r"fp32: .*row \d+") as stopped:
        main()
    assert "fp32: agreement is" in str(stopped.value)
    assert "flips row" in str(stopped.value)
    assert "int8:" not in str(stopped.value)
    assert metrics(project)["fp32_agreement"] < 0.9
    assert report(project)["models"]["fp32"]["violations"]
    assert published(project) == before, "who serves the models before goes on"


def test_required_int8_outside_its_tolerance_stops_the_pipeline_and_the_hint_says_how_to_go_on(project):
    change_params(project, {"compare.int8.required": True})
    spoil(project / "models/candidates/model.int8.onnx")
    with pytest.raises(GateError, match="int8: agreement is") as stopped:
        main()
    assert "Set compare.int8.required to false" in stopped.value.hint
    assert "models/onnx stays as it was" in stopped.value.hint


def test_pipeline_continues_without_int8_that_is_not_required(project, capsys):
    spoil(project / "models/candidates/model.int8.onnx")
    main()
    assert "model.int8.onnx" not in published(project)
    assert {"model.onnx", "tokenizer.json", "config.json"} <= published(project)
    record = json.loads((project / "models/onnx/export.json").read_text())
    assert record["models"].keys() == {"fp32"}
    assert record["left_out"]["int8"][0].startswith("agreement is 0.")
    with pytest.raises(
        StageError,
        match=r"int8.*: agreement is 0\.",
    ) as refused:
        exported_file(project / "models/onnx", "int8")
    assert "Use fp32" in refused.value.hint
    assert "int8 is not published: agreement is" in capsys.readouterr().err


def test_predictions_are_matched_by_row_number(project):
    path = project / "reports/predictions.parquet"
    table = pq.read_table(path)
    pq.write_table(table.take(pa.array(np.random.default_rng(0).permutation(len(table)))), path)
    main()
    assert metrics(project)["fp32_agreement"] == 1
