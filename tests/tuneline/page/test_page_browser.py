"""The page in a real browser: no console error, no network request.

tests/tuneline/checks/several_modules/test_browser.py measures it.
"""

import pytest
from typer.testing import CliRunner

from tests.browser import DARK, needs_browser, visit
from tests.tuneline.finished_project import FinishedProject
from tuneline.cli import app

pytestmark = [needs_browser, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages of a classifier with a previous commit, of a regression, and of a pipeline that never ran."""
    paths = {}
    for kind, names in (
        ("classifier", ("billing", "delivery", "damage")),
        ("regression", None),
        ("empty", ("a", "b")),
    ):
        root = tmp_path_factory.mktemp(kind)
        project = FinishedProject(root, names)
        if kind != "empty":
            project.run_pipeline().commit()
            project.run_pipeline(skill=3.0, seed=2)
        project.commit("Learn more")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(root)
            assert CliRunner().invoke(app, ["report"]).exit_code == 0
        paths[kind] = root / "reports/index.html"
    return paths


@pytest.mark.parametrize("kind", ["classifier", "regression", "empty"])
@pytest.mark.parametrize("scheme", ["light"])
def test_page_logs_nothing_to_the_console(pages, tmp_path, kind, scheme):
    dom, console = visit(pages[kind], tmp_path / "profile", *([DARK] if scheme == "dark" else []))
    assert console == []
    assert "<h1>" in dom
    assert kind == "empty" or dom.count("<svg") == 2, "loss and calibration, or actual and predicted numbers"
