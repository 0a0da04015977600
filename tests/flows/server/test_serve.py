"""The former names of the schedule: units that are installed start it, and `make serve` starts nothing."""

import subprocess
import sys

from tests.conftest import ROOT


def test_installed_unit_starts_the_schedule_and_says_its_name():
    """By an option that only the schedule refuses, in place of the hours that it runs."""
    command = [sys.executable, "-m", "flows.server.serve", "--host", "::"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "tuneline@schedule" in done.stderr
    assert "flows.server.schedule: error: --host ::" in done.stderr
    assert done.returncode == 2


def test_make_serve_names_both_commands_in_one_line_and_starts_neither():
    done = subprocess.run(
        ["make", "--no-print-directory", "serve"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "make schedule" in line
    assert "tuneline serve" in line
