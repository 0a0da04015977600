"""The unit for systemd: valid, as its own tool says, and patient enough for runs to save a checkpoint."""

import shutil
import subprocess

import pytest

from tests.conftest import ROOT

ANALYZE = shutil.which("systemd-analyze")
NEWER = ("RestartSteps", "RestartMaxDelaySec")
"""Keys that systemd has since 254; older versions say that they ignore them."""
UNIT = ROOT / "containers/tuneline@.service"


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("instance", ["schedule", "worker"])
@pytest.mark.parametrize("user", ["", "root"], ids=["user", "machine"])
def test_systemd_accepts_the_installed_unit(tmp_path, instance, user):
    """Installed with the commands of docs/production.md."""
    edits = [f"s|@ROOT@|{ROOT}|g", *([f"s|^#User=|User={user}|"] if user else [])]
    text = subprocess.check_output(["sed", *(f"-e{edit}" for edit in edits), UNIT], text=True)
    assert f"User={user}\n" in text
    unit = tmp_path / UNIT.name.replace("@", f"@{instance}")
    unit.write_text(text)
    done = subprocess.run([ANALYZE, "verify", unit], capture_output=True, text=True, check=False)
    problems = [
        line
        for line in done.stderr.splitlines()
        if unit.name in line and not any(key in line for key in NEWER)
    ]
    assert (done.returncode, problems) == (0, []), done.stderr
