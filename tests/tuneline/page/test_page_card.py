from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from huggingface_hub import ModelCard
from typer.testing import CliRunner

from tests.tuneline.finished_project import FinishedProject
from tuneline.cli import app
from tuneline.core.runtime.terminal import CONTROL_CHARACTERS
from tuneline.core.stage.tables import write_table
from tuneline.model.tasks.columns import raw_schema
from tuneline.page.page import CARD, PAGE, read_report
from tuneline.page.rendering import render_card


def card() -> ModelCard:
    return ModelCard(render_card(read_report(Path())))


def card_beside_page() -> ModelCard:
    """Return the card that the command writes, and leave the page that it writes, too."""
    done = CliRunner().invoke(app, ["report"])
    assert done.exit_code == 0, done.output
    return ModelCard(CARD.read_text())


def test_huggingface_hub_parses_the_metadata(project):
    data = card().data
    assert (data.library_name, data.pipeline_tag) == ("transformers", "text-classification")
    assert data.tags == ["tuneline", "onnx"]


def test_names_from_the_data_are_escaped_in_the_card(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FinishedProject(
        tmp_path, ("a|b", "<img src=x>", "`x` *y*\n# z"), **{"data.label_column": "---\nlicense: x"}
    ).run_pipeline().commit()
    model_card = card()
    assert "<img" not in model_card.text
    assert "\n# z" not in model_card.text
    assert model_card.data.license is None
    rows = [line for line in model_card.text.splitlines() if line.startswith("| a")]
    assert len(rows) == 1
    assert rows[0].replace("\\|", "").count("|") == 6, "one row of five cells"


def test_card_and_page_show_control_characters_of_class_names_and_texts_as_codes(tmp_path, monkeypatch):
    """``cat`` obeys an escape sequence, and a browser writes what follows U+202E from right to left."""
    monkeypatch.chdir(tmp_path)
    names = ("\x1b[31mred", "\u202etxt.exe", "\u2067due\u2069 \u200fمرح\u200e می\u200cروم")
    project = FinishedProject(tmp_path, names, **{"data.path": "in\u202evoices"})
    project.run_pipeline().commit()
    rows = pa.table(
        {
            name: [f"paid\x07 \u202e{row}\r\nline" for row in range(project.rows)]
            for name in ("subject", "body")
        }
    )
    labels = pq.read_table(tmp_path / "data/raw/test.parquet").select(["labels", "idx"])
    schema = raw_schema(["subject", "body"], project.task)
    write_table(pa.table([*rows.columns, *labels.columns], schema=schema), tmp_path / "data/raw/test.parquet")
    card_beside_page()
    for path in (CARD, PAGE):
        text = path.read_text()
        assert not CONTROL_CHARACTERS.search(text), path
        for shown in (r"\x1b", r"\u202etxt.exe", "\u200fمرح\u200e می\u200cروم"):
            assert shown in text.replace("\\[", "["), (path, shown)
    assert "paid\\x07 \\u202e" in PAGE.read_text()
    assert r"\r" not in PAGE.read_text(), "the line ends of Windows are no control characters"


def test_page_of_a_model_that_is_not_exported_yet_has_nothing_of_the_exported_one(project):
    project.evaluate(skill=1.0, seed=7)
    project.lock(seed=7)
    text = card_beside_page().text
    assert "ONNX Runtime" not in text
    assert "| Libraries |" not in text, "those that export.json names are of the other model"
    assert "models/onnx and its comparison are of another model" in PAGE.read_text()
    assert "ONNX int8 published" not in PAGE.read_text()


def test_class_that_f1_is_of_is_named_beside_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    project = FinishedProject(tmp_path, ("OFFENSE", "OTHER"), **{"train.metric": "f1"})
    project.metric = "f1"
    project.run_pipeline()
    config = {"id2label": {"0": "OFFENSE", "1": "OTHER"}, "decisions": {"positive": "OFFENSE"}}
    project.write("models/classifier/config.json", config)
    project.commit()
    card_text = card_beside_page().text
    page = PAGE.read_text()
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["show"]).output
    for text in (card_text.replace("\\", ""), page, shown):
        assert "F1 (OFFENSE)" in text
        assert "F1 of" not in text
        assert "F1 0." not in text
