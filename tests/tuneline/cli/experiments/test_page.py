"""``tuneline experiments page``: one file for any number of experiments."""

import re

import pytest
from typer.testing import CliRunner

from tests.browser import DARK, needs_browser, unreadable, visit
from tests.tuneline.finished_project import HOSTILE
from tests.tuneline.saved_experiments import ExperimentRepository
from tuneline.cli import app


def page_of(repository: ExperimentRepository) -> str:
    done = CliRunner().invoke(app, ["experiments", "page"])
    assert done.exit_code == 0, done.output
    return (repository.root / "reports/experiments.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> ExperimentRepository:
    """A base and 8 experiments, which differ in numbers, words and switches."""
    repository = ExperimentRepository(tmp_path_factory.mktemp("many"))
    repository.save("base", 0.7)
    for index in range(8):
        changes = {
            "train__learning_rate": 1e-5 * 1.2**index,
            "train__epochs": 1 + index % 7,
            "train__schedule": ("linear", "cosine", "polynomial")[index % 3],
            "train__class_weights": (None, "balanced")[index % 2],
            "train__tf32": index % 5 > 0,
        }
        repository.save(f"run-{index}", 0.6 + 0.3 * index / 8, **changes)
    return repository


def test_page_has_a_line_for_each_experiment_and_no_network(many, monkeypatch):
    monkeypatch.chdir(many.root)
    page = page_of(many)
    assert page.count("<tr>") == 10
    assert not re.search(r"<script|(src|href)=\"(?!#|data:)", page)
    parallel = re.search(r'<svg[^>]*aria-label="Parameters.*?</svg>', page, re.DOTALL)
    assert parallel
    assert all(
        name in parallel[0]
        for name in ("learning_rate", "epochs", "schedule", "class_weights", "tf32", "validation accuracy")
    )
    assert "9 experiments" in parallel[0]


def test_page_escapes_values(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    repository = ExperimentRepository(tmp_path)
    repository.save("base", 0.7)
    repository.save("hostile", 0.8, data__label_column=HOSTILE)
    page = page_of(repository)
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_one_experiment_without_curves_has_a_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    repository = ExperimentRepository(tmp_path)
    repository.save("base", 0.7)
    for path in (tmp_path / ".dvc/cache").rglob("*"):
        if path.is_file():
            path.unlink()
    page = page_of(repository)
    assert 'id="curves"' not in page
    assert "0.700" in page


@needs_browser
@pytest.mark.timeout(300)
def test_page_is_readable_at_every_width(many, monkeypatch, tmp_path):
    monkeypatch.chdir(many.root)
    page_of(many)
    page = many.root / "reports/experiments.html"
    _, console = visit(page, tmp_path / "profile")
    assert console == []
    for options in ([], [DARK]):
        folder = tmp_path / f"browser-{len(options)}"
        folder.mkdir()
        assert unreadable(page, folder, *options) == {"1280": [], "390": [], "320": []}, options
