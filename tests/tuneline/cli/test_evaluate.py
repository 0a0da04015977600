"""``tuneline evaluate``: an exported model on a fresh labelled file."""

import csv
import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner, Result

import stages.baseline
import stages.evaluate
from tests.custom_functions import write_functions
from tests.dvc_files import folder_hash, init_dvc
from tests.exported_pipeline import published_pipeline
from tests.params import change_params
from tests.project import GIT_IDENTITY
from tests.small_pipeline import QUEUES
from tuneline.checks.analysis.clusters import cluster_texts
from tuneline.cli import app
from tuneline.core.stage.tables import write_numbers
from tuneline.serve.model_choice import ModelChoice


def run(*words: object) -> Result:
    return CliRunner(env={"COLUMNS": "300"}).invoke(app, ["evaluate", *map(str, words)])


@pytest.fixture
def project(tmp_path_factory, tmp_path, monkeypatch) -> Callable[[str], Path]:
    """Return a project with published models and its test split as ``fresh.csv``; the working directory."""

    def make(task: str = "classification", long_text: str = "truncate") -> Path:
        shutil.copytree(published_pipeline(tmp_path_factory, task, long_text), tmp_path / "project")
        monkeypatch.chdir(tmp_path / "project")
        ModelChoice.load.cache_clear()  # one process is one project, but here
        rows = pq.read_table("data/raw/test.parquet").to_pylist()
        label = (lambda value: QUEUES[value]) if task == "classification" else repr
        write_csv(
            "fresh.csv",
            [{"subject": row["subject"], "body": row["body"], "queue": label(row["labels"])} for row in rows],
        )
        return tmp_path / "project"

    return make


def write_csv(path: str, rows: list[dict[str, object]]) -> None:
    with Path(path).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def read_csv(path: str) -> list[dict[str, str]]:
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("task", "long_text"),
    [("classification", "windows"), ("regression", "truncate")],
)
def test_metrics_of_the_test_split_are_those_of_the_stage(task, long_text, project):
    project(task, long_text)
    if task == "regression":
        change_params(Path(), {"data.task": task, "train.metric": "pearson"})
    Path("data/raw/source.json").unlink()  # it has no splits
    stages.baseline.main()
    texts = pq.read_table("data/raw/test.parquet", columns=["subject", "body"]).combine_chunks()
    clusters = cluster_texts([column.chunk(0) for column in texts.columns], similarity=0.5)
    Path("reports/checks/clusters").mkdir(parents=True)
    write_numbers(Path("reports/checks/clusters/test.parquet"), "cluster", clusters)
    # the temperature that train has fitted, which is that of the fp32 model
    record = json.loads(Path("models/onnx/export.json").read_text())
    config = json.loads(Path("models/classifier/config.json").read_text())
    config["decisions"] = record["models"]["fp32"].get("decisions", {})
    Path("models/classifier/config.json").write_text(json.dumps(config))
    stages.evaluate.main()
    done = run("fresh.csv", "--json", "fresh.json")
    assert done.exit_code == 0, done.output
    of_stage, of_file = (
        json.loads(Path(path).read_text()) for path in ("metrics/evaluate.json", "fresh.json")
    )
    common = of_file.keys() & of_stage.keys()
    assert {"rows", "loss"} < common
    assert [of_file[key] for key in common] == pytest.approx([of_stage[key] for key in common], abs=2e-5)


def test_metrics_are_printed_with_intervals_verdict_and_what_is_unknown(project):
    project()
    done = run("fresh.csv")
    assert done.exit_code == 0, done.output
    metrics = json.loads(Path("models/onnx/export.json").read_text())["models"]["fp32"]["metrics"]
    assert (
        f"Accuracy {metrics['accuracy']:.4f}".split()
        == next(line for line in lines(done) if line[0] == "Accuracy")[:2]
    )
    assert any(line[0] == "F1" and line[3] == "to" for line in lines(done))
    assert "The model predicts the same class for all 50 rows" in done.output
    assert "Worst slice: " in done.output


def test_functions_of_the_user_are_slices_of_a_file(project):
    folder = project("regression")
    code = "def low(texts, labels): return (labels <= labels.median()) & (texts['body'] != '')"
    write_functions(folder, {"project/slices.py": code})
    changes = {"data.task": "regression", "train.metric": "pearson"}
    change_params(folder, {**changes, "evaluate.slices": ["project/slices.py:low"]})
    done = run("fresh.csv")
    assert done.exit_code == 0, done.output
    assert "Worst slice: function low," in done.output, "the only slice with rows enough"


def lines(done: Result) -> list[list[str]]:
    return [line.replace("│", " ").split() for line in done.output.splitlines() if line.strip("│ ")]


def test_errors_are_written_with_line_texts_and_confidence_the_most_confident_first(project):
    project()
    content = read_csv("fresh.csv")
    subprocess.run(["sed", "-i", "1a\\\\n", "fresh.csv"], check=True)
    assert run("fresh.csv", "--errors", "errors.csv").exit_code == 0
    predicted = CliRunner().invoke(app, ["predict", "data/raw/test.parquet"]).stdout.splitlines()
    found = {
        number: json.loads(line)
        for number, line in enumerate((one for one in predicted if one.startswith("{")), start=4)
    }
    wrong = {line: one for line, one in found.items() if one["label"] != content[line - 4]["queue"]}
    errors = read_csv("errors.csv")
    assert 0 < len(errors) < len(content)
    assert {int(row["line"]): row["predicted"] for row in errors} == {
        line: one["label"] for line, one in wrong.items()
    }
    for row in errors:
        assert {name: row[name] for name in ("subject", "body")} == {
            name: content[int(row["line"]) - 4][name] for name in ("subject", "body")
        }
        assert row["label"] == content[int(row["line"]) - 4]["queue"]
        assert float(row["confidence"]) == pytest.approx(wrong[int(row["line"])]["probability"], abs=2e-6)
    confidences = [float(row["confidence"]) for row in errors]
    assert confidences == sorted(confidences, reverse=True)


def test_errors_have_no_cell_and_no_name_that_a_spreadsheet_executes(project):
    project()
    rows = read_csv("fresh.csv")
    formulas = [
        {"=subject": row["subject"], "body": f"=HYPERLINK({number})", "queue": row["queue"]}
        for number, row in enumerate(rows)
    ]
    write_csv("fresh.csv", formulas)
    done = run("fresh.csv", "--errors", "errors.csv", "--text", "=subject", "--text", "body")
    assert done.exit_code == 0, done.output
    written = read_csv("errors.csv")
    assert written
    assert list(written[0])[:3] == ["line", " =subject", "body"]
    assert {row["body"] for row in written} <= {f" {row['body']}" for row in formulas}


@pytest.mark.parametrize(
    ("change", "options", "messages"),
    [
        (
            {"queue": "spam"},
            [],
            [
                "fresh.csv, line 4, column 'queue': the model has no class 'spam'",
                "'billing', 'delivery', 'returns'",
            ],
        ),
        ({"queue": ""}, [], ["fresh.csv, line 4, column 'queue': no label"]),
        ({}, ["--label", "label"], ["fresh.csv: no column 'label'"]),
    ],
)
def test_file_that_cannot_be_evaluated_is_refused_with_row_and_column(change, options, messages, project):
    project()
    rows = read_csv("fresh.csv")
    rows[2] |= change
    write_csv("fresh.csv", rows)
    done = run("fresh.csv", "--errors", "errors.csv", *options)
    assert done.exit_code == 65, done.output
    assert all(message in done.output for message in messages), done.output
    assert not Path("errors.csv").exists()
    if change:
        skipped = run("fresh.csv", "--max-bad-share", 0.05, "--json", "fresh.json")
        assert skipped.exit_code == 0, skipped.output
        assert "skipped line 4: column" in skipped.output
        assert re.search("49 rows, .*1 left out", skipped.output)
        assert json.loads(Path("fresh.json").read_text())["rows"] == 49
        assert run("fresh.csv", "--max-bad-share", 0.01).exit_code == 65, "2 % are more than 1 %"
        change_params(Path(), {"data.max_bad_share": 0.05})
        assert run("fresh.csv").exit_code == 0, "training has left such rows out"


def test_labels_may_be_ids_and_columns_may_have_other_names(project):
    project()
    assert run("fresh.csv", "--json", "names.json").exit_code == 0
    rows = read_csv("fresh.csv")
    renamed = [
        {"Betreff": row["subject"], "Größe": row["body"], "y": f"{QUEUES.index(row['queue'])}.0"}
        for row in rows
    ]
    write_csv("ids.csv", renamed)
    Path("ids.csv").write_bytes(Path("ids.csv").read_text().replace(",", ";").encode("utf-16"))
    done = run("ids.csv", "--text", "Betreff", "--text", "Größe", "--label", "y", "--json", "ids.json")
    assert done.exit_code == 0, done.output
    assert json.loads(Path("ids.json").read_text()) == json.loads(Path("names.json").read_text())


def test_model_in_production_is_evaluated_from_the_cache(project):
    """It is not the model of the checkout, which is removed."""
    root = project()
    assert run("fresh.csv", "--json", "here.json").exit_code == 0
    git("init", "--quiet")
    init_dvc(root)
    outs = [{"path": "models/onnx", "hash": "md5", "md5": folder_hash(Path("models/onnx"))}]
    listing = [
        {"md5": store(path.read_bytes()), "relpath": path.name}
        for path in sorted(Path("models/onnx").iterdir())
    ]
    assert store(json.dumps(listing).encode(), ".dir") == outs[0]["md5"]
    with Path("dvc.lock").open("w") as file:
        YAML().dump(
            {"schema": "2.0", "stages": {"compare": {"cmd": "python -m stages.compare", "outs": outs}}}, file
        )
    git("add", "dvc.lock")
    git("commit", "--quiet", "--message", "Learn")
    git("tag", "--annotate", "onnx@v0.1.0", "--message", "v")
    git("tag", "--annotate", "onnx#production#1", "--message", "p")
    shutil.rmtree("models/onnx")
    done = run("fresh.csv", "--model", "production", "--json", "there.json")
    assert done.exit_code == 0, done.output
    assert Path("there.json").read_bytes() == Path("here.json").read_bytes()
    missing = Path(".dvc/cache/files/md5", listing[0]["md5"][:2], listing[0]["md5"][2:])
    missing.unlink()
    done = run("fresh.csv", "--model", "production")
    assert (done.exit_code, "cannot be fetched" in done.output) == (1, True), done.output
    done = run("fresh.csv", "--model", "v9")
    assert (done.exit_code, "no model is in v9" in done.output) == (1, True), done.output
    assert run("fresh.csv").exit_code == 1, "no model"


def git(*words: str) -> None:
    subprocess.run(["git", *words], check=True, env={**GIT_IDENTITY, "PATH": "/usr/bin:/bin"})


def store(content: bytes, suffix: str = "") -> str:
    """Put a file into DVC's cache, and return its hash."""
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest() + suffix
    path = Path(".dvc/cache/files/md5", md5[:2], md5[2:])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return md5
