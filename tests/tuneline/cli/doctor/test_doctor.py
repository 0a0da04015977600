from typer.testing import CliRunner

from tuneline.cli import app


def test_doctor_exits_with_1_if_a_check_fails(checkout):
    """Without a .dvc folder the pipeline cannot run."""
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 1
    assert "error the folder .dvc is missing" in done.output
    assert "-> git checkout .dvc, or dvc init" in done.output
