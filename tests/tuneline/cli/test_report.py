from typer.testing import CliRunner

from tests.tuneline.results.verdict.runs import told_of
from tuneline.cli import app
from tuneline.results.page import PAGE


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


def test_against_option_sets_the_commit_to_compare_with(project):
    project.git("branch", "base")
    base = project.git("rev-parse", "--short", "base")
    project.run_pipeline(skill=3.0, seed=2).commit("Learn more")
    project.run_pipeline(skill=4.0, seed=3).commit("Learn even more")
    assert report("--against", "base").exit_code == 0
    assert f"since {base}" in PAGE.read_text()


def test_unknown_commit_is_an_error(project):
    result = report("--against", "nowhere")
    assert result.exit_code == 1
    assert "git knows no such commit" in result.output


def test_folder_without_dvc_yaml_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = report()
    assert result.exit_code == 1
    assert "no dvc.yaml" in result.output
