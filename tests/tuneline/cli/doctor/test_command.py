from typer.testing import CliRunner

from tuneline.cli import app


def test_an_error_ends_it_with_a_code_that_scripts_see(checkout):
    """No .dvc folder stands there: the line cannot run."""
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 1
    assert "error .dvc is not there" in done.output
    assert "-> git checkout .dvc, or dvc init" in done.output
