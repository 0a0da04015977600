import pytest

from tuneline.cli import doctor as machine


def write_lock(tmp_path, text):
    path = tmp_path / "requirements.txt"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("lock", "installed", "message"),
    [
        ("numpy==2.0 \\\n    --hash=sha256:00\n    # via x\n", {"numpy": "2.0"}, "1 packages as pinned"),
        ("torch==2.1\n", {"torch": "2.1+cpu"}, "1 packages as pinned"),
        ("absent==1 ; python_full_version < '3.0'\n", {}, "0 packages as pinned"),
        ("torch==2.1\n", {"torch": "2.2+cpu"}, "requirements.txt: torch 2.2+cpu (pinned: 2.1)"),
        ("absent==1\n", {}, "absent missing (pinned: 1)"),
    ],
)
def test_packages_are_compared_with_their_pins(tmp_path, lock, installed, message):
    assert machine.check_packages(write_lock(tmp_path, lock), installed).message.endswith(message)


def test_programs_of_another_environment_on_path_are_a_warning(tmp_path):
    """`dvc repro` starts `python -m stages.NAME` by PATH: without .venv in it, another Python would run the
    stages."""
    (tmp_path / "bin").mkdir()
    own = str(tmp_path / "bin/python")
    assert machine.check_programs(tmp_path, own, own, own).level == "ok"
    result = machine.check_programs(tmp_path, "/usr/bin/python", own, None)
    assert result.level == "warning"
    assert "/usr/bin/python, none" in result.message
