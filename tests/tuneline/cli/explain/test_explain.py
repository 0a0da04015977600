import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tests.conftest import ROOT
from tuneline.cli import app
from tuneline.cli.explain import read_reference, walk
from tuneline.settings import Settings

runner = CliRunner(env={"COLUMNS": "100"})


@pytest.fixture(autouse=True)
def project(monkeypatch):
    monkeypatch.chdir(ROOT)


def explained(*words: str) -> str:
    done = runner.invoke(app, ["explain", *words])
    assert done.exit_code == 0, done.output
    return done.output


def test_explain_lists_all_sections():
    keys = [line.split()[0] for line in explained().splitlines() if line and line[0] != " "]
    assert keys[:12] == [
        "seed",
        "data",
        "tokenize",
        "model",
        "validate",
        "train",
        "run",
        "evaluate",
        "export",
        "compare",
        "decide",
        "flows",
    ]


def test_explain_prints_meaning_type_default_and_stages_of_a_parameter():
    output = explained("export.opset")
    assert output.startswith("export.opset\n    Version of the ONNX operator set.")
    assert "Type: integer from 18 to 23. Default: " in output
    assert "A change reruns export" in output


def test_explain_prints_the_present_value_beside_the_default(tmp_path, monkeypatch):
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    monkeypatch.chdir(tmp_path)
    assert "Default: 0.0007\n" in explained("train.learning_rate"), "no params.yaml"
    (tmp_path / "params.yaml").write_text(
        "train: {learning_rate: 5.0e-5}\ncompare: {fp32: {max_abs_diff: null}}\ndata: {split: null}\n"
    )
    assert "Default: 0.0007. Value: 5e-05\n" in explained("train.learning_rate")
    assert "Value: null" in explained("compare.fp32.max_abs_diff")
    assert "Value" not in explained("train.epochs")
    assert "Value: null" in explained("data.split").partition("data.split.")[0]
    assert "Value" not in explained("data.split.validation")
    (tmp_path / "params.yaml").write_text("train: {learning_rate\n")
    assert "Default: 0.0007\n" in explained("train.learning_rate"), "a broken params.yaml"


def test_explain_flows_lists_the_sections_of_the_settings():
    keys = [line.split()[0] for line in explained("flows").splitlines() if line and line[0] != " "]
    assert keys[: len(Settings.model_fields)] == [f"flows.{name}" for name in Settings.model_fields]


def test_explain_prints_meaning_type_default_and_value_of_a_setting_and_no_stages(tmp_path, monkeypatch):
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    (tmp_path / "conf").mkdir()
    settings = tmp_path / "conf" / "flows.yaml"
    monkeypatch.chdir(tmp_path)
    assert "Default: 0.95. Value: 0.95\n" in explained("flows.promotion.confidence"), "no conf/flows.yaml"
    settings.write_text("promotion: {confidence: 0.99}\nscoring: {inbox: data/new}\n")
    output = explained("flows.promotion.confidence")
    assert output.startswith("flows.promotion.confidence\n    Level of the paired bootstrap interval")
    assert "Type: number > 0.5 and < 1. Default: 0.95. Value: 0.99\n" in output
    assert "reruns" not in output
    assert "Default: data/inbox. Value: data/new\n" in explained("flows.scoring.inbox")
    assert "Default: 100. Value: 100\n" in explained("flows.promotion.min_rows"), "a key that the file lacks"
    settings.write_text("promotion: {confidence\n")
    assert "Default: 0.95\n" in explained("flows.promotion.confidence"), "a broken conf/flows.yaml"


def test_explain_prints_all_settings_of_a_section():
    output = explained("flows.scoring")
    assert output.startswith("flows.scoring\n    Flow `score`")
    assert "\nflows.scoring.bad_rows\n" in output
    assert "\nflows.scoring.drift.max_psi\n" in output


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("flows.stages.train", "flows.stages.*"),
        ("flows.stages.train.retries", "flows.stages.*.retries"),
    ],
)
def test_explain_of_an_entry_explains_what_all_entries_have(key, found):
    assert explained(key).startswith(f"{found}\n")


def test_explain_prints_all_parameters_of_a_section():
    output = explained("run")
    assert "A change reruns no stage" in output
    assert "\nrun.checkpoint_every_steps\n" in output
    assert "\nrun.trackers\n" in output


def test_explain_prints_keys_that_sections_have_in_common_once():
    output = explained("compare")
    assert output.count(".max_abs_diff\n") == 1
    assert "\ncompare.*.max_abs_diff\n" in output
    assert "\ncompare.int8.allow_saturation\n" in output


def test_explain_prints_other_stages_where_a_parameter_has_them():
    own = explained("data").partition("\ndata.text_columns\n")[2].partition("\n\n")[0]
    assert "A change reruns download, tokenize, validate" in own


@pytest.mark.parametrize("key", ["model.config.hidden_size", "train.class_weights.spam"])
def test_explain_of_a_key_inside_a_mapping_explains_the_mapping(key):
    assert explained(key).startswith(f"{key.rpartition('.')[0]}\n")


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ("train.warmup_ration", "train.warmup_ratio"),
        ("warmup_ratio", "train.warmup_ratio"),
        ("trian", "train"),
        ("validate.leakge", "validate.leakage"),
        ("flow", "flows"),
        ("promotion.min_gain", "flows.promotion.min_gain"),
        ("flows.promotoin", "flows.promotion"),
        ("flows.promotion.min_gian", "flows.promotion.min_gain"),
        ("flows.stages.train.retrys", "flows.stages.train.retries"),
    ],
)
def test_explain_of_an_unknown_key_names_the_nearest_one(wrong, nearest):
    done = runner.invoke(app, ["explain", wrong])
    assert done.exit_code == 1
    assert f"tuneline explain: {wrong}: unknown parameter; did you mean {nearest}?" in done.output


def test_explain_of_an_unknown_section_names_the_sections():
    done = runner.invoke(app, ["explain", "xyz.abc"])
    assert done.exit_code == 1
    assert "known sections are seed, data, tokenize" in done.output


def test_explain_outside_a_project_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = runner.invoke(app, ["explain", "train"])
    assert done.exit_code == 1
    assert "is missing" in done.output
    assert "root of the project" in done.output


def test_explain_writes_no_trailing_spaces_and_no_colour_when_piped():
    output = explained("train")
    assert "\x1b" not in output
    assert not [line for line in output.splitlines() if line != line.rstrip()]


def test_explain_all_prints_every_parameter():
    lines = explained("--all").splitlines()
    keys = {line for line in lines if line and line[0] != " "}
    single = [parameter.key for parameter in walk(read_reference(ROOT)) if not parameter.children]
    assert not [key for key in single if key not in keys and re.sub(r"\..+\.", ".*.", key) not in keys]


def test_explain_imports_no_numeric_library():
    """It answers a question, so it starts at once."""
    code = (
        "import sys\nfrom tuneline.cli import app\n"
        "app(['explain', 'flows.scoring'], standalone_mode=False)\n"
        "heavy = {'numpy', 'pyarrow', 'torch', 'transformers', 'datasets', 'dvc'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
