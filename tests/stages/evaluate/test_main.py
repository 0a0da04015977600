import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages import evaluate
from tests.custom_functions import write_functions
from tests.params import change_params
from tests.shards import into_shards
from tests.stages.evaluate.project import write_project
from tuneline.core.runtime.errors import DataError, ParamsError, StageError
from tuneline.core.stage.tables import CLUSTER, write_numbers, write_table
from tuneline.judge.evaluation import plots
from tuneline.model.tasks import Classification, Regression


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Projects by kind; each test works in a copy."""
    kinds = {
        "queues": Classification(("billing", "delivery", "technical")),
        "numbers": Regression(),
    }
    folders = {name: tmp_path_factory.mktemp(name) for name in kinds}
    for name, labels in kinds.items():
        write_project(folders[name], labels)
    return folders


@pytest.fixture
def project(made, tmp_path, monkeypatch, request):
    folder = shutil.copytree(made[getattr(request, "param", "queues")], tmp_path / "project")
    monkeypatch.chdir(folder)
    return folder


def metrics(path="reports/evaluation.json"):
    return json.loads(Path(path).read_text())


def test_committed_metrics_are_those_that_people_compare(project):
    evaluate.main()
    committed = metrics("metrics/evaluate.json")
    assert {"accuracy", "f1", "loss", "rows", "accuracy_low", "tfidf_accuracy"} <= committed.keys()
    assert committed.items() < metrics().items()
    assert len(committed) <= 20


def outs(project):
    """Everything that the stage wrote."""
    found = [
        path
        for name in ("metrics", "plots", "reports")
        for path in (project / name).rglob("*")
        if path.is_file()
    ]
    files = [path for path in found if path.parent.name != "baselines"]
    return {str(path.relative_to(project)): path.read_bytes() for path in sorted(files)}


CLASSES = [
    "accuracy",
    "f1",
    "matthews_correlation",
    "loss",
    "rows",
    "roc_auc",
    "calibration_error",
]
BASELINES = ["majority_accuracy", "majority_f1", "tfidf_accuracy", "tfidf_f1", "tfidf_matthews_correlation"]


@pytest.mark.parametrize(
    ("project", "names"),
    [
        ("queues", [*CLASSES, *BASELINES]),
        (
            "numbers",
            [
                "pearson",
                "spearmanr",
                "mse",
                "loss",
                "rows",
                "mean_mse",
                "tfidf_pearson",
                "tfidf_spearmanr",
                "tfidf_mse",
            ],
        ),
    ],
    indirect=["project"],
)
def test_metrics_file_has_metrics_and_baselines(project, names):
    timing = evaluate.main()
    assert [name for name in metrics() if name in names] == names
    assert metrics()["rows"] == 45
    assert timing["rows_per_second"] > 0


def test_metrics_match_the_predictions_table(project):
    evaluate.main()
    table = pq.read_table("reports/predictions.parquet").to_pydict()
    right = np.array(table["label"]) == np.array(table["prediction"])
    assert metrics()["accuracy"] == pytest.approx(right.mean(), abs=1e-6)
    logits = np.array(table["logits"], dtype=np.float64)
    chosen = logits[np.arange(45), table["label"]] - np.log(np.exp(logits).sum(axis=1))
    assert metrics()["loss"] == pytest.approx(-chosen.mean(), abs=1e-6)


def test_model_is_compared_with_the_tfidf_baseline_on_the_same_rows(project):
    evaluate.main()
    low, high = (metrics()[f"accuracy_over_tfidf_{end}"] for end in ("low", "high"))
    assert low < metrics()["accuracy"] - metrics()["tfidf_accuracy"] < high


def test_leaked_rows_that_validate_found_are_left_out_of_a_second_metric(project):
    evaluate.main()
    assert "leaked_rows" not in metrics(), "the data checks have not run"
    folder = Path("reports/checks/rows")
    folder.mkdir(parents=True)
    pq.write_table(
        pa.table({"split": ["test"] * 5, "row": list(range(5)), "other_split": ["train"] * 5}),
        folder / "near_duplicates.parquet",
    )
    evaluate.main()
    table = pq.read_table("reports/predictions.parquet").slice(5).to_pydict()
    right = np.array(table["label"]) == np.array(table["prediction"])
    assert metrics()["leaked_rows"] == 5
    assert metrics()["accuracy_without_leaks"] == pytest.approx(right.mean(), abs=1e-6)


@pytest.mark.parametrize("project", ["queues", "numbers"], indirect=True)
def test_functions_of_the_user_are_metrics(project):
    code = "def worst(outputs, labels): return outputs.ndim + len(labels) / 100\n"
    write_functions(project, {"project/metrics.py": code})
    change_params(project, {"evaluate.metrics": ["project/metrics.py:worst"]})
    evaluate.main()
    assert metrics()["worst"] == pytest.approx((1 if "pearson" in metrics() else 2) + 0.45)


OWN_SLICE = """
def first_half(texts, labels):
    assert list(texts.columns) == ["subject", "body"] and len(texts) == 45
    return [row < 25 for row in range(len(texts))]
def wrong(texts, labels):
    import json, pathlib
    rows = json.loads(pathlib.Path("wrong.json").read_text())
    return [row in rows for row in range(len(texts))]
def none(texts, labels):
    return texts["body"] == "no such text"
"""


def test_functions_of_the_user_are_slices(project, capsys):
    evaluate.main()
    table = pq.read_table("reports/predictions.parquet").to_pydict()
    right = np.array(table["label"]) == np.array(table["prediction"])
    wrong = np.flatnonzero(~right).tolist()
    assert len(wrong) >= 20, "enough for the worst slice"
    Path("wrong.json").write_text(json.dumps(wrong))

    write_functions(project, {"project/slices.py": OWN_SLICE})
    names = [f"project/slices.py:{name}" for name in ("first_half", "wrong", "none")]
    change_params(project, {"evaluate.slices": names})
    evaluate.main()
    slices = metrics("reports/slices.json")
    own = {scored["slice"]: scored for scored in slices["slices"] if scored["by"] == "function"}
    assert {name: scored["rows"] for name, scored in own.items()} == {"first_half": 25, "wrong": len(wrong)}
    assert own["first_half"]["accuracy"] == pytest.approx(right[:25].mean(), abs=1e-6)
    assert slices["worst"]["slice"] == "wrong"
    assert metrics()["worst_slice_accuracy"] == 0
    assert "function: first_half" in Path("plots/evaluation/slices.csv").read_text()
    assert "project/slices.py:none chooses no row of test" in capsys.readouterr().out


def test_wrong_slice_is_an_error_before_the_model_predicts(project):
    shutil.rmtree("models/classifier")
    write_functions(project, {"project/slices.py": "def own(texts, labels): return labels"})
    change_params(project, {"evaluate.slices": ["project/slices.py:own"]})
    with pytest.raises(ParamsError, match=r"evaluate\.slices: project/slices\.py:own returns Series"):
        evaluate.main()


def test_slices_of_a_raw_split_with_other_rows_are_refused(project):
    path = Path("data/raw/test.parquet")
    pq.write_table(pq.read_table(path).slice(1), path)
    write_functions(project, {"project/slices.py": "def own(texts, labels): return labels.isna()"})
    change_params(project, {"evaluate.slices": ["project/slices.py:own"]})
    with pytest.raises(DataError, match="has 44 rows, and the tokenized split has 45"):
        evaluate.main()


def test_predictions_keep_row_order_and_class_names(project):
    from datasets import Dataset

    evaluate.main()
    table = pq.read_table("reports/predictions.parquet")
    assert table.schema.names == ["idx", "label", "logits", "prediction"]
    assert table["idx"].to_pylist() == list(range(45))
    assert table["label"].to_pylist() == pq.read_table("data/tokenized/test.parquet")["labels"].to_pylist()
    assert [np.argmax(row) for row in table["logits"].to_pylist()] == table["prediction"].to_pylist()
    features = Dataset.from_parquet("reports/predictions.parquet", cache_dir=str(project / "cache")).features
    assert features["label"].names == features["prediction"].names == ["billing", "delivery", "technical"]


@pytest.mark.parametrize("project", ["queues", "numbers"], indirect=True)
def test_shards_give_the_same_bytes_as_one_file(project, monkeypatch):
    monkeypatch.setattr(plots, "ROW_GROUP", 7)
    evaluate.main()
    once = outs(project)
    for folder in ("raw", "tokenized"):
        into_shards(project / "data" / folder, rows=8)
    evaluate.main()
    assert outs(project) == once


@pytest.mark.parametrize("project", ["queues", "numbers"], indirect=True)
def test_second_run_writes_the_same_bytes(project):
    evaluate.main()
    once = outs(project)
    evaluate.main()
    assert outs(project) == once
    assert not [name for name, content in once.items() if str(project).encode() in content]


def test_evaluate_split_selects_the_reported_split(project):
    change_params(project, {"evaluate.split": "validation", "train.keep": "last"})
    evaluate.main()
    table = pq.read_table("reports/predictions.parquet")
    assert (
        table["label"].to_pylist() == pq.read_table("data/tokenized/validation.parquet")["labels"].to_pylist()
    )


def test_split_without_labels_is_an_error(project):
    path = project / "data/tokenized/test.parquet"
    table = pq.read_table(path)
    labels = table["labels"].to_pylist()
    labels[7] = -1
    write_table(table.set_column(3, table.field(3), [labels]), path)
    with pytest.raises(DataError, match=r"test\.parquet: .*row 7"):
        evaluate.main()
    assert outs(project) == {}


@pytest.mark.parametrize("project", ["numbers"], indirect=True)
def test_minus_one_is_a_label_of_a_regression_unless_every_row_has_it(project):
    path = project / "data/tokenized/test.parquet"
    table = pq.read_table(path)
    write_table(table.set_column(3, table.field(3), pa.array([-1.0] * 44 + [0.5], pa.float32())), path)
    evaluate.main()
    assert metrics()["rows"] == 45
    write_table(table.set_column(3, table.field(3), pa.array([-1.0] * 45, pa.float32())), path)
    with pytest.raises(DataError, match="45 of 45 rows"):
        evaluate.main()


def test_failure_leaves_earlier_outs(project):
    evaluate.main()
    before = outs(project)
    change_params(project, {"evaluate.metrics": ["no_such_metric"]})
    with pytest.raises(StageError, match="no_such_metric"):
        evaluate.main()
    assert outs(project) == before


@pytest.mark.parametrize(
    ("project", "metric"),
    [("queues", "accuracy"), ("numbers", "pearson")],
    indirect=["project"],
)
def test_slices_cover_the_split(project, metric):
    evaluate.main()
    report = json.loads(Path("reports/slices.json").read_text())
    kinds = {"length"} if metric == "pearson" else {"length", "label"}
    assert {one["by"] for one in report["slices"]} == kinds
    for kind in kinds:
        assert sum(one["rows"] for one in report["slices"] if one["by"] == kind) == 45
    assert metrics()[f"worst_slice_{metric}"] == report["worst"][metric]
    if metric == "accuracy":
        whole = sum(one["rows"] * one["accuracy"] for one in report["slices"] if one["by"] == "label") / 45
        assert whole == pytest.approx(metrics()["accuracy"], abs=1e-5)


def test_rows_of_a_cluster_that_validate_found_count_once(project):
    evaluate.main()
    alone = metrics()
    assert "clusters" not in alone, "the data checks have not run"
    rows = pq.read_metadata("reports/predictions.parquet").num_rows
    clusters = np.arange(rows, dtype=np.int32) // 5
    Path("reports/checks/clusters").mkdir(parents=True)
    write_numbers(Path("reports/checks/clusters/test.parquet"), CLUSTER, clusters)
    evaluate.main()
    assert metrics()["clusters"] == rows // 5
    assert metrics()["accuracy"] == alone["accuracy"]
    assert (
        metrics()["accuracy_high"] - metrics()["accuracy_low"]
        > alone["accuracy_high"] - alone["accuracy_low"]
    )
    assert pq.read_table("reports/predictions.parquet")["cluster"].to_pylist() == clusters.tolist()
