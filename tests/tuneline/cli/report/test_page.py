import json
import re
import shutil
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from tests.tuneline.made import HOSTILE, Made
from tuneline.cli import app
from tuneline.cli.report import page


def written(*words) -> str:
    done = CliRunner().invoke(app, ["report", "--no-latency", *words])
    assert done.exit_code == 0, done.output
    return page.PAGE.read_text()


class Reader(HTMLParser):
    """Tags with their attributes, and all text outside of styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "link", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        self.text += data if "style" not in self.open else ""


@pytest.fixture
def reader(made):
    return Reader(written())


def test_the_page_asks_for_nothing(reader):
    """No script, no picture, no font, no style from anywhere: one file that can be mailed."""
    assert not {tag for tag, _ in reader.tags} & {"script", "img", "iframe", "object", "embed", "base", "form", "image", "foreignobject"}
    for tag, attributes in reader.tags:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href", "xlink:href", "data"):
            if target := attributes.get(name):
                assert target.startswith(("#", "data:,")) or (tag == "a" and target == "checks/index.html"), (tag, target)
    page_text = page.PAGE.read_text()
    assert not re.search(r"url\((?!#)|@import", page_text)
    assert set(re.findall(r"https?://[^\"' )]+", page_text)) <= {"http://www.w3.org/1999/xlink", "http://www.w3.org/2000/svg"}


def test_a_policy_in_the_page_forbids_what_should_not_be_there(reader):
    policy = next(attributes["content"] for tag, attributes in reader.tags if attributes.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "script-src" not in policy


def test_tags_are_closed_in_order(reader):
    assert reader.open == []


def test_ids_are_unique_and_every_reference_has_its_target(reader):
    ids = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    html = page.PAGE.read_text()
    assert set(re.findall(r'(?:url\(|href=")#([\w-]+)', html)) <= set(ids)


def test_text_from_the_data_stays_text(reader):
    assert HOSTILE in reader.text
    assert "<script" not in page.PAGE.read_text()


def test_class_names_stay_text_wherever_they_stand(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ("<b>bold</b>", "a|b & $x$", '"quoted"')
    Made(tmp_path, names).line().commit()
    reader = Reader(written())
    assert "b" not in {tag for tag, attributes in reader.tags if not attributes} or "<b>bold" not in page.PAGE.read_text()
    assert all(name in reader.text for name in names)


def test_every_section_has_what_it_is_for(reader):
    for words in (
        "Accuracy on test, 120 rows",
        "95 % interval",
        "over 0.",
        "Run the line",
        "step 400 was kept",
        "1 of 2 passed",
        "near duplicates",
    ):
        assert words in reader.text, words
    for words in ("int8 is not published. agreement is 0.9", "1 row on which int8 answers otherwise", "No earlier commit", "torch 2.13.0"):
        assert words in reader.text, words
    for words in ("Worst: 21 to 70 tokens, 0.600", "by overlap", "a typing mistake: 3 failed", "97 of 100", "minimum functionality"):
        assert words in reader.text, words
    figures = [attributes["aria-label"] for tag, attributes in reader.tags if tag == "svg"]
    assert len(figures) == 9


def test_the_earlier_commit_stands_in_figures_and_words(made):
    before = made.git("rev-parse", "--short", "HEAD")
    made.line(skill=6.0, seed=2).commit("Learn more")
    html = written()
    assert f"since {before}: clearly better" in html
    assert html.count(">earlier<") == 2, "behind the curves of precision and ROC"
    assert f">{before}<" in html


def test_the_commit_to_compare_with_can_be_named(made):
    made.git("branch", "base")
    base = made.git("rev-parse", "--short", "base")
    made.line(skill=3.0, seed=2).commit("Learn more")
    made.line(skill=4.0, seed=3).commit("Learn even more")
    assert f"since {base}" in written("--against", "base")


def test_an_unknown_commit_is_an_error(made):
    done = CliRunner().invoke(app, ["report", "--against", "nowhere"])
    assert done.exit_code == 1
    assert "git knows no such commit" in done.output


@pytest.mark.parametrize(
    ("missing", "command"),
    [
        ("metrics/evaluate.json", "dvc repro evaluate"),
        ("plots/evaluation", "dvc repro evaluate"),
        ("plots/training", "dvc repro train"),
        ("reports/predictions.parquet", "dvc repro evaluate"),
        ("reports/slices.json", "dvc repro evaluate"),
        ("reports/behaviour.json", None),
        ("reports/checks", "dvc repro validate"),
        ("reports/compare", "dvc repro compare"),
        ("dvc.lock", "dvc repro"),
        ("data", None),
        ("models", None),
        ("metrics/train.json", None),
        ("reports/timing", None),
    ],
)
def test_what_is_missing_is_said_with_the_command_that_makes_it(made, missing, command):
    path = made.root / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    reader = Reader(written())
    assert command is None or f"{command} makes" in reader.text


def test_a_project_whose_line_never_ran_gets_a_page_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Made(tmp_path).commit("Start")
    assert "the line has not run here" in Reader(written()).text


@pytest.mark.parametrize(
    "broken", ["metrics/evaluate.json", "plots/training/loss.tsv", "reports/predictions.parquet", "reports/checks/checks.json"]
)
def test_a_broken_file_counts_as_missing(made, broken):
    (made.root / broken).write_bytes(b"\x00 no such format")
    assert "not there. " in Reader(written()).text


def test_a_model_without_mistakes_has_none_to_show(made):
    made.line(skill=100.0)
    assert "surest of it" not in written()


def test_a_folder_that_is_no_project_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["report"])
    assert done.exit_code == 1
    assert "no dvc.yaml" in done.output


def test_a_regression_has_its_own_figures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Made(tmp_path, names=None).line().commit()
    reader = Reader(written())
    assert "Pearson's r on test" in reader.text
    assert "Farthest off" in reader.text
    labels = [attributes["aria-label"] for tag, attributes in reader.tags if tag == "svg"]
    assert "Predicted over actual numbers" in labels
    assert "ROC curve" not in labels


def test_many_classes_are_listed_by_what_is_confused_most(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Made(tmp_path, tuple(f"class {number}" for number in range(40)), rows=800).line(skill=1.0).commit()
    html = written()
    assert 'class="matrix"' not in html
    assert "<th>Answered</th>" in html


def test_two_classes_draw_curves_of_the_positive_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Made(tmp_path, ("no", "yes")).line().commit()
    assert "Curves are means over the classes" not in written()


def test_the_same_inputs_give_the_same_page(made):
    assert written() == written()


def test_the_checks_are_linked_only_where_their_page_is(made):
    assert 'href="checks/index.html"' in written()
    (made.root / "reports/checks/index.html").unlink()
    assert 'href="checks/index.html"' not in written()


def test_an_unwritable_place_leaves_the_former_page(made, monkeypatch):
    before = written()
    monkeypatch.setattr(page, "render", lambda report: 1 / 0)
    done = CliRunner().invoke(app, ["report", "--no-latency"])
    assert done.exit_code == 1
    assert page.PAGE.read_text() == before


def test_latency_noted_for_younger_models_is_not_shown(made):
    made.write(
        "reports/timing/latency.json",
        {"threads": 2, "measured": [{"precision": "fp32", "batch_size": 1, "p50_ms": 1.25, "p95_ms": 2.0, "rows_per_second": 800.0}]},
    )
    assert "1.2 ms" in written()
    (made.root / "models/onnx/export.json").write_text(json.dumps({"models": {}}))
    assert "1.2 ms" not in written()
