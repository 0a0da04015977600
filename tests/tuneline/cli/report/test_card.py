import json

import pytest
from huggingface_hub import ModelCard
from typer.testing import CliRunner

from tests.tuneline.made import HOSTILE, Made
from tuneline.cli import app
from tuneline.cli.report.card import CARD, escape


def card() -> ModelCard:
    done = CliRunner().invoke(app, ["report", "--no-latency"])
    assert done.exit_code == 0, done.output
    return ModelCard(CARD.read_text())


def test_the_hubs_own_parser_reads_the_metadata_and_every_metric(made):
    data = card().data
    metrics = json.loads((made.root / "metrics/evaluate.json").read_text())
    assert (data.library_name, data.pipeline_tag) == ("transformers", "text-classification")
    measured = {result.metric_type: result.metric_value for result in data.eval_results}
    assert measured["accuracy"] == metrics["accuracy"]
    assert measured["f1"] == metrics["f1"]
    assert {result.dataset_split for result in data.eval_results} == {"test"}
    assert data.model_name == "sample-queue"


def test_a_checkpoint_and_a_data_set_of_the_hub_are_linked(made):
    made.change_params(
        **{"data.source": "hub", "data.path": "nyu-mll/glue", "data.name": "mrpc", "model.checkpoint": "google-bert/bert-base-uncased"}
    )
    made.lock(seed=1)
    made.write("data/raw/source.json", {"source": "hub", "path": "nyu-mll/glue", "commit": "abc123"})
    data = card().data
    assert data.datasets == ["nyu-mll/glue"]
    assert data.base_model == "google-bert/bert-base-uncased"
    assert {(result.dataset_type, result.dataset_config, result.dataset_revision) for result in data.eval_results} == {
        ("nyu-mll/glue", "mrpc", "abc123")
    }


@pytest.mark.parametrize("checkpoint", ["/somewhere/bert", "./bert", "models/base", None])
def test_a_checkpoint_in_a_folder_is_not_taken_for_a_name_on_the_hub(made, checkpoint):
    (made.root / "models/base").mkdir(parents=True, exist_ok=True)
    made.change_params(**{"model.checkpoint": checkpoint})
    made.lock(seed=1)
    assert card().data.base_model is None


def test_what_a_reader_of_the_card_needs_is_there(made):
    text = card().text
    for words in ("which of 3 classes of queue", "text_pair", "95 % interval", "## Limits", "It learned from generated tickets", "made"):
        assert words in text
    assert made.git("rev-parse", "HEAD") in text


def test_one_text_column_is_used_as_one_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Made(tmp_path, **{"data.text_columns": ["text"]}).line().commit()
    assert "text_pair" not in card().text


def test_a_regression_says_that_it_predicts_a_number(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Made(tmp_path, names=None).line().commit()
    found = card()
    assert "predicts a number" in found.text
    assert "pearson" in {result.metric_type for result in found.data.eval_results}


def test_a_line_that_never_ran_has_a_card_that_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Made(tmp_path).commit("Start")
    found = card()
    assert "dvc repro evaluate" in found.text
    assert found.data.eval_results is None


def test_names_from_the_data_cannot_break_the_card(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Made(tmp_path, ("a|b", "<img src=x>", "`x` *y*\n# z"), **{"data.label_column": "---\nlicense: x"}).line().commit()
    found = card()
    assert "<img" not in found.text
    assert "\n# z" not in found.text
    assert found.data.license is None
    rows = [line for line in found.text.splitlines() if line.startswith("| a")]
    assert len(rows) == 1
    assert rows[0].replace("\\|", "").count("|") == 6, "one row of five cells"


def test_escaping_leaves_plain_words_alone():
    assert escape("plain words, 1 to 2 (really)") == "plain words, 1 to 2 (really)"
    assert "<" not in escape(HOSTILE)
