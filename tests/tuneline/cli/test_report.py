from typer.testing import CliRunner

from tests.tuneline.page.verdict.runs import told_of
from tuneline.cli import app


def report(*options):
    """Run ``tuneline report``."""
    return CliRunner().invoke(app, ["report", *options])


def test_report_writes_page_and_model_card_and_prints_their_paths(project):
    result = report()
    assert result.exit_code == 0, result.output
    first, *verdict = result.output.splitlines()
    assert first == "report: reports/index.html, reports/model_card.md"
    assert verdict[0] == str(told_of(project.root)[0])
    assert "TF-IDF" in verdict[0]
    assert (project.root / "reports/index.html").is_file()
    assert (project.root / "reports/model_card.md").is_file()
