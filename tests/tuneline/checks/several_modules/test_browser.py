"""Every page in a real browser, on a desk and on a phone, light and dark: nothing cut off, no small and no
pale text."""

import pytest
from typer.testing import CliRunner

from tests.browser import DARK, needs_browser, unreadable
from tests.tuneline.checks.data import good_data
from tests.tuneline.finished_project import FinishedProject
from tuneline.cli import app
from tuneline.model.tasks import Classification, Multilabel, Regression

pytestmark = [needs_browser, pytest.mark.slow, pytest.mark.timeout(300)]


def report_pages(folder):
    """Return the report of few and of many classes, of a regression, and of few and of many labels."""
    pages = []
    many = tuple(f"a rather long class name {i}" for i in range(18))
    tasks = {
        "few": Classification(("billing", "delivery")),
        "many": Classification(many[:12]),
        "regression": Regression(),
        "labels": Multilabel(("billing", "delivery")),
        "many_labels": Multilabel(many),
    }
    for kind, task in tasks.items():
        (folder / kind).mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder / kind)
            FinishedProject(folder / kind, task=task).run_pipeline().commit()
            assert CliRunner().invoke(app, ["report"]).exit_code == 0
        pages.append(folder / kind / "reports/index.html")
    return pages


def checks_pages(folder):
    """Return the page of data with faults."""
    from tuneline.checks.expectations import check_tables
    from tuneline.checks.report import write_checks
    from tuneline.checks.tables import derive_tables

    data = good_data()
    data.raw["train"]["one"][3] = "W" * 600 + " \x07"
    data.raw["train"]["one"][20:120] = [data.raw["train"]["one"][0]] * 100
    data.raw["train"]["two"][20:120] = [data.raw["train"]["two"][0]] * 100
    (folder / "checks").mkdir()
    write_checks(
        folder / "checks", check_tables(derive_tables(data.params, data.write(folder / "data"), None))
    )
    return [folder / "checks/index.html"]


@pytest.mark.parametrize("pages", [report_pages, checks_pages])
def test_page_is_readable_at_every_width_light_and_dark(tmp_path, pages):
    for number, page in enumerate(pages(tmp_path)):
        for options in ([], [DARK]):
            folder = tmp_path / f"browser-{number}-{len(options)}"
            folder.mkdir()
            assert unreadable(page, folder, *options) == {"1280": [], "390": [], "320": []}, (
                page.name,
                options,
            )
