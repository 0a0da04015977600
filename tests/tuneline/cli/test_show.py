import re
import shutil
import subprocess
import sys

from typer.testing import CliRunner

from tests.model_comparisons import FIGURES
from tuneline.cli import app
from tuneline.core.stage.records import file_hash, write_record
from tuneline.onnx.comparison_records import ComparisonRecord, ModelComparison

runner = CliRunner(env={"COLUMNS": "200"})


def shown(*words) -> str:
    done = runner.invoke(app, ["show", *words])
    assert done.exit_code == 0, done.output
    return done.output


def test_show_prints_metrics_version_commit_paths_and_next_steps(project):
    output = shown()
    assert re.search(r"Accuracy +│ +0\.\d+", output)
    assert re.search(r"ONNX int8: agreement with the trained model +│ +0\.9 ", output)
    assert f"{1:032x}.dir" in output
    assert "Run the pipeline" in output
    assert "reports/predictions.parquet" in output
    assert "reports/index.html" not in output, "only what is there"
    assert "train.learning_rate=0.00025,0.001 train  queue half and twice the learning rate" in output, (
        "a longer command has its space, too"
    )


def test_show_prints_escape_sequences_of_a_commit_as_codes(project):
    project.git("commit", "--quiet", "--amend", "--message", "Run\x1b[2J \u202etxt.exe")
    assert r"Run\x1b[2J \u202etxt.exe" in shown()


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


def write_comparison(root, predictions, **changes):
    """Write the comparison of an int8 model with the predictions of some model."""
    int8 = ModelComparison(**{**FIGURES, "violations": [], "required": False, "published": True, **changes})
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


def test_show_after_another_evaluation_prints_no_figures_of_the_comparison_before(project):
    """``dvc repro evaluate`` on other data leaves ``metrics/compare.json`` and ``reports/compare``."""
    write_comparison(project.root, file_hash(project.root / "reports/predictions.parquet"))
    project.evaluate(skill=1.0, seed=7)
    project.lock(seed=7)
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
