import pytest


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def code(tmp_path):
    (tmp_path / "stages/download").mkdir(parents=True)
    (tmp_path / "tuneline/core").mkdir(parents=True)
    (tmp_path / "tuneline/core/paths.py").write_text("a = 1\n")
    (tmp_path / "stages/download/files.py").write_text("b = 2\n")
    return ["tuneline/core/paths.py", "stages/download"]
