from tuneline.operations import checkup


def test_programs_of_another_environment_on_path_are_a_warning(tmp_path):
    """`dvc repro` starts `python -m stages.NAME` by PATH: without .venv in it, another Python would run the
    stages."""
    (tmp_path / "bin").mkdir()
    own = str(tmp_path / "bin/python")
    assert checkup.check_programs(tmp_path, own, own, own).level == "ok"
    result = checkup.check_programs(tmp_path, "/usr/bin/python", own, None)
    assert result.level == "warning"
    assert "/usr/bin/python before" in result.message
