import json
import re
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tests.records import export_record
from tests.tuneline.finished_project import FinishedProject
from tuneline.cli import app
from tuneline.core.base_source import BaseSource, PretrainedSource
from tuneline.core.hashes import file_hash
from tuneline.core.provenance import DevicesUsed, StageProvenance
from tuneline.core.written_records import write_record
from tuneline.onnx.comparison_records import ComparisonRecord, ModelComparison
from tuneline.repository.dvc import md5_of
from tuneline.tasks import Multilabel

runner = CliRunner(env={"COLUMNS": "200"})


def shown(*words) -> str:
    done = runner.invoke(app, ["show", *words])
    assert done.exit_code == 0, done.output
    return done.output


def test_show_in_a_fresh_clone_says_how_to_run_the_pipeline(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = runner.invoke(app, ["show"])
    assert done.exit_code == 1
    assert "the pipeline has not run here yet" in done.output
    assert "make run" in done.output


def test_show_prints_metrics_version_commit_paths_and_next_steps(project):
    output = shown()
    assert re.search(r"Accuracy +│ +0\.\d+", output)
    assert re.search(r"ONNX int8: agreement with the trained model +│ +0\.9 ", output)
    assert f"{1:032x}.dir" in output
    assert "Run the pipeline" in output
    assert "reports/predictions.parquet" in output
    assert "reports/index.html" not in output, "only what is there"
    assert "train.learning_rate=0.00025" in output, "half of the present one"


def test_show_prints_escape_sequences_of_a_commit_as_codes(project):
    project.git("commit", "--quiet", "--amend", "--message", "Run\x1b[2J \u202etxt.exe")
    assert r"Run\x1b[2J \u202etxt.exe" in shown()


def test_show_names_the_base_model(project):
    assert re.search(r"base +none: trained from scratch", shown())
    source = PretrainedSource(
        name="someone/bert", commit="c" * 40, license="mit", sha256={"model.safetensors": "e" * 64}
    )
    project.base(source)
    output = shown()
    assert f"base  someone/bert at {'c' * 40}, licence mit, SHA-256 {'e' * 64}" in output
    assert "tokenizer" not in output, "it is the checkpoint's own"
    write_record(
        project.root / "models/base/source.json",
        BaseSource(checkpoint=source, tokenizer=source.model_copy(update={"name": "someone/words"})),
    )
    assert "tokenizer  someone/words at" in shown()


def test_show_of_exported_models_names_the_base_model(tmp_path):
    source = PretrainedSource(
        name="someone/bert", commit="c" * 40, license="mit", sha256={"model.safetensors": "e" * 64}
    )
    record = export_record()
    base = BaseSource(checkpoint=source, tokenizer=source)
    write_record(
        tmp_path / "export.json",
        record.model_copy(update={"provenance": record.provenance.model_copy(update={"base": base})}),
    )
    assert f"base  someone/bert at {'c' * 40}, licence mit" in shown(str(tmp_path))


def test_show_of_exported_models_has_the_thresholds_of_labels(tmp_path):
    decisions = {"thresholds": {"billing": 0.369102, "damage": 0.5}, "at_least_one": False}
    record = export_record(task="multilabel", labels=["billing", "damage"], decisions=decisions)
    write_record(tmp_path / "export.json", record)
    output = shown(str(tmp_path))
    assert "thresholds  billing 0.369, damage 0.5" in output
    assert "at_least_one  false" in output


def test_show_has_the_agreement_on_single_labels(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    project = FinishedProject(tmp_path, task=Multilabel(("billing", "delivery"))).run_pipeline()
    comparison = json.loads((tmp_path / "reports/compare/comparison.json").read_text())
    comparison["models"]["int8"]["lowest_label_agreement"] = 0.93
    project.write("reports/compare/comparison.json", comparison)
    project.commit()
    output = shown()
    assert re.search(r"ONNX int8: agreement of the worst label +│? +0\.93", output)
    assert "Macro F1 of TF-IDF" in output


def test_show_says_when_the_bytes_are_not_those_of_one_kind_of_machine(project):
    layouts = {"0": "1 process(es) on cpu (AVX512)", "9": "1 process(es) on cpu (AVX2)"}
    devices = DevicesUsed(type="cpu", precision="no", processes=1, distribution="NO", layouts=layouts)
    write_record(
        project.root / "reports/provenance/train.json",
        StageProvenance(parameters={}, code="", libraries={}, devices=devices),
    )
    expected = "not those of one kind of machine: from step 0 1 process(es) on cpu (AVX512); from step 9"
    assert expected in shown()


def test_show_of_an_uncommitted_result_says_how_to_commit_it(project):
    project.lock(seed=2)
    assert (
        "not committed yet: git add params.yaml dvc.lock metrics conf data models project && git commit"
        in shown()
    )


def test_show_prints_the_names_in_the_registry(project):
    for name in ("onnx@v1.0.0", "onnx#production#1"):
        project.git("tag", "--annotate", name, "--message=A tag of the registry")
    assert re.search(r"registry +onnx@v1\.0\.0, onnx#production\n", shown())


def test_show_describes_exported_models_outside_their_project(project, tmp_path_factory, monkeypatch):
    (project.root / "models/onnx").rename(tmp_path_factory.mktemp("far") / "onnx")
    monkeypatch.chdir(tmp_path_factory.getbasetemp())
    output = shown(str(next(tmp_path_factory.getbasetemp().glob("far*/onnx"))))
    assert "subject, body -> billing, delivery, damage" in output
    assert "model.onnx, 2.0 MB" in output
    assert "torch 2.13.0" in output
    assert "trained on  cuda, bf16, 2 processes (MULTI_GPU)" in output


@pytest.mark.parametrize("words", [["show"], ["report"]])
def test_invalid_parameters_are_an_error_after_the_result(project, words):
    (project.root / "params.yaml").write_text("seed: 1\n<<<<<<< HEAD\n")
    done = runner.invoke(app, words)
    assert (done.exit_code, "params.yaml, line 2: a merge left a conflict" in done.stderr) == (1, True)
    assert "report" in done.stdout, "the result is shown all the same"


def test_show_refuses_a_folder_without_exported_models(tmp_path):
    done = runner.invoke(app, ["show", str(tmp_path)])
    assert done.exit_code == 1
    assert "not a folder of models that Tuneline exported" in done.output


def test_command_start_imports_neither_torch_nor_transformers(project):
    code = (
        "import sys\nfrom tuneline.cli import app\n"
        "for words in (['show'], ['doctor', '--help'], ['init', '--help'], ['report']):\n"
        "    app(words, standalone_mode=False)\n"
        "    heavy = {'torch', 'transformers', 'datasets', 'great_expectations'} & set(sys.modules)\n"
        "    assert not heavy, (words, heavy)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project.root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_show_imports_no_numeric_library(project):
    """`make run` ends with it, and its users wait for its start."""
    code = (
        "import sys\nfrom tuneline.cli import app\napp(['show'], standalone_mode=False)\nheavy = {'numpy',"
        " 'pyarrow', 'matplotlib', 'jinja2', 'pandas', 'onnxruntime'} & set(sys.modules)\nassert not heavy,"
        " heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project.root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def write_comparison(root, predictions, **changes):
    """Write the comparison of an int8 model with the predictions of some model."""
    figures = {
        "max_abs_diff": 0.1,
        "mean_abs_diff": 0.01,
        "agreement": 0.9,
        "flips": 2,
        "accuracy": 0.8,
        "accuracy_drop": 0.1,
    }
    int8 = ModelComparison(**{**figures, "violations": [], "required": False, "published": True, **changes})
    record = ComparisonRecord(
        split="test",
        rows=20,
        metric="accuracy",
        predictions=predictions,
        trained={"accuracy": 0.9},
        models={"int8": int8},
    )
    (root / "reports/compare").mkdir(parents=True, exist_ok=True)
    write_record(root / "reports/compare/comparison.json", record)


def test_show_names_a_model_that_was_left_out(project):
    predictions = file_hash(project.root / "reports/predictions.parquet")
    write_comparison(project.root, predictions, violations=["agreement is 0.9"], published=False)
    assert (
        "The int8 model is not published, because it differs too much from the trained one: agreement is 0.9."
        in shown()
    )


def test_show_prints_zero_for_a_drop_that_is_rounded_to_negative_zero(project):
    predictions = file_hash(project.root / "reports/predictions.parquet")
    write_comparison(project.root, predictions, accuracy_drop=-0.0)
    assert re.search(r"ONNX int8: Accuracy lost +│ +0 ", shown())


def test_show_prints_no_figures_of_the_onnx_models_of_another_model(project):
    write_comparison(project.root, "0" * 64)
    output = shown()
    assert "ONNX int8" not in output
    assert "models/onnx is of another model: run `dvc repro`" in output


def test_show_after_another_evaluation_prints_no_figures_of_the_comparison_before(project):
    """``dvc repro evaluate`` on other data leaves ``metrics/compare.json`` and ``reports/compare``."""
    write_comparison(project.root, file_hash(project.root / "reports/predictions.parquet"))
    project.evaluate(skill=1.0, seed=7)
    project.lock(seed=7)
    output = shown()
    assert "ONNX int8" not in output
    assert "models/onnx is of another model: run `dvc repro`" in output


def test_show_after_git_checkout_alone_prints_no_figures_of_the_models_that_dvc_has_left(project):
    project.lock(seed=7)
    lock = project.root / "dvc.lock"
    evaluated = md5_of(project.root / "reports/predictions.parquet")
    lock.write_text(lock.read_text().replace(evaluated, "f" * 32))
    output = shown()
    assert "ONNX int8" not in output
    assert "models/onnx is of another model: run `dvc repro`" in output


def test_show_says_first_that_there_is_no_published_model(project):
    shutil.rmtree(project.root / "models/onnx")
    write_comparison(project.root, file_hash(project.root / "reports/predictions.parquet"))
    output = shown()
    assert output.startswith(
        "! There is no published model in models/onnx. `dvc checkout models/onnx` brings back"
    )
