import contextlib
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from tests.tuneline.finished_project import HOSTILE, FinishedProject
from tests.tuneline.page.verdict.runs import told_of
from tuneline.cli import app
from tuneline.model.tasks import Multilabel
from tuneline.page import page


def write_page(*options) -> str:
    done = CliRunner().invoke(app, ["report", *options])
    assert done.exit_code == 0, done.output
    return page.PAGE.read_text()


class Reader(HTMLParser):
    """Collects tags with their attributes, and all text outside of styles."""

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
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        self.text += data if "style" not in self.open else ""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The page of a finished project, for tests that only read it."""
    with contextlib.chdir(tmp_path_factory.mktemp("written")):
        FinishedProject(Path.cwd()).run_pipeline().commit()
        return write_page()


@pytest.fixture
def reader(written):
    return Reader(written)


def test_page_loads_no_external_resource(reader, written):
    """No script, picture, font or style sheet: the page is one file that can be mailed."""
    assert not {tag for tag, _ in reader.tags} & {
        "script",
        "img",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
        "image",
        "foreignobject",
    }
    for tag, attributes in reader.tags:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href", "xlink:href", "data"):
            if target := attributes.get(name):
                assert target.startswith(("#", "data:,")) or (tag == "a" and target == "checks/index.html"), (
                    tag,
                    target,
                )
    assert not re.search(r"url\((?!#)|@import", written)
    assert set(re.findall(r"https?://[^\"' )]+", written)) <= {
        "http://www.w3.org/1999/xlink",
        "http://www.w3.org/2000/svg",
    }


def test_page_has_a_content_security_policy_without_scripts(reader):
    policy = next(
        attributes["content"]
        for tag, attributes in reader.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in policy
    assert "script-src" not in policy


def test_every_tag_is_closed(reader):
    assert reader.open == []


def test_ids_are_unique_and_references_have_targets(reader, written):
    ids = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(|href=")#([\w-]+)', written)) <= set(ids)


def test_text_from_the_data_is_escaped(reader, written):
    assert HOSTILE in reader.text
    assert "<script" not in written


def test_class_names_are_escaped_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ("<b>bold</b>", "a|b & $x$", '"quoted"')
    FinishedProject(tmp_path, names).run_pipeline().commit()
    reader = Reader(write_page())
    assert (
        "b" not in {tag for tag, attributes in reader.tags if not attributes}
        or "<b>bold" not in page.PAGE.read_text()
    )
    assert all(name in reader.text for name in names)


MISSING = {
    "metrics/evaluate.json": "dvc repro evaluate",
    "models": None,
}
"""Files that the page reads, and the command that creates each; ``None`` if the page does without."""


@pytest.mark.parametrize(("missing", "command"), MISSING.items())
def test_missing_file_is_named_with_the_command_that_creates_it(project, missing, command):
    path = project.root / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    reader = Reader(write_page())
    assert command is None or f"{command} creates" in reader.text


@pytest.mark.parametrize("broken", ["reports/predictions.parquet"])
def test_invalid_file_counts_as_missing(project, broken):
    (project.root / broken).write_bytes(b"\x00 no such format")
    assert " missing. " in Reader(write_page()).text


def test_page_of_a_regression_has_its_own_figures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FinishedProject(tmp_path, names=None).run_pipeline().commit()
    reader = Reader(write_page())
    assert "Pearson's r on test" in reader.text
    assert "Largest errors" in reader.text
    labels = [attributes["aria-label"] for tag, attributes in reader.tags if tag == "svg"]
    assert "Predicted over actual numbers" in labels


def test_page_of_several_labels_has_thresholds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = Multilabel(("billing", HOSTILE, "$5", "delivery"), thresholds=(0.5, 0.25, 0.5, 0.8125))
    project = FinishedProject(tmp_path, task=task).run_pipeline()
    project.commit()
    html = write_page()
    reader = Reader(html)

    # quality
    assert reader.text.lstrip().startswith("subject, body → queue: macro f1")
    for tile in ("Micro F1", "Rows exactly right"):
        assert f"<dt>{tile}</dt>" in html

    # predictions
    assert "Threshold" in reader.text
    assert '<td class="num" data-label="Threshold"><span>0.812</span></td>' in html
    assert "Confusion matrix" not in reader.text

    # the separator is what no name contains, and "&" of the name is escaped once
    assert "<script>" not in html
    assert "alert(1)" in reader.text
    project.evaluate(skill=9.0, seed=1)
    project.lock(seed=2)
    assert "Most confident errors" not in Reader(write_page()).text


def shown():
    return CliRunner(env={"COLUMNS": "300"}).invoke(app, ["show"]).output


@pytest.mark.parametrize(
    ("evaluate", "words"),
    [
        (
            {"outs": [{"path": "metrics/evaluate.json", "md5": "0" * 32}]},
            "metrics/evaluate.json is of another run than dvc.lock",
        ),
        (
            {"deps": [{"path": "models/classifier", "md5": "0" * 32}]},
            "of the model before this one, which is not evaluated yet",
        ),
        (
            {"params": {"params.yaml": {"seed": 1, "data.path": "old.csv"}}},
            "other parameters than those in params.yaml now (seed, data.path)",
        ),
    ],
)
def test_result_of_another_run_is_told_on_the_page_and_by_show(project, evaluate, words):
    (project.root / "params.yaml").write_text("seed: 42\ndata: {path: new.csv}\n")
    lock = YAML(typ="safe").load(project.root / "dvc.lock")
    del lock["stages"]["all"]["params"]
    lock["stages"]["evaluate"] = {"cmd": "python -m stages.evaluate", **evaluate}
    with (project.root / "dvc.lock").open("w") as file:
        YAML().dump(lock, file)
    assert words in Reader(write_page_of_other_params()).text
    assert words in shown()


def write_page_of_other_params():
    """Write the page; the command fails afterwards, because these parameters are not complete."""
    assert "params.yaml" in CliRunner().invoke(app, ["report"]).stderr
    return page.PAGE.read_text()


def test_metric_without_leaked_rows_is_told_on_the_page_in_the_card_and_by_show(project):
    path = project.root / "metrics/evaluate.json"
    metrics = json.loads(path.read_text())
    without = {
        "accuracy_without_leaks": 0.7,
        "accuracy_without_leaks_low": 0.6,
        "accuracy_without_leaks_high": 0.8,
    }
    path.write_text(
        json.dumps(
            {
                **metrics,
                "leaked_rows": 9,
                **without,
            }
        )
    )
    (told,) = (said.sentence for said in told_of(project.root) if "0.600" in said.sentence)
    assert "0.700" in told
    html = write_page()
    assert told in html.replace("&#39;", "'")
    assert "without leaks" not in html, "they are no metrics of the user's"
    assert told in (project.root / "reports/model_card.md").read_text().replace("\\", "")
    assert told in CliRunner(env={"COLUMNS": "500"}).invoke(app, ["show"]).output
