import os
import sys
from pathlib import Path

from tuneline.core.repository.programs import program_environment, site_cache


def test_programs_import_nothing_from_the_python_path_of_this_process(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    environment = program_environment()
    assert "PYTHONPATH" not in environment
    assert environment["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)


def test_site_cache_is_for_its_user_only(tmp_path):
    assert site_cache(tmp_path) == {}, "this is no project"
    (tmp_path / ".dvc").mkdir()
    folder = Path(site_cache(tmp_path)["DVC_SITE_CACHE_DIR"])
    assert folder.stat().st_mode & 0o777 == 0o700
