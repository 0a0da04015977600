import shutil

import pytest

from tests.conftest import ROOT
from tuneline.core.runtime.errors import StageError
from tuneline.core.stage.code import code_hash, engine_hash, engine_record, require_engine

PIPELINE = """stages:
  score:
    cmd:
      - python -m tuneline.check
      - python -m stages.score
    deps: [data, stages/score.py, project/losses.py]
"""
LOOP = "def steps():\n    return 3\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with one stage, beside an engine of four modules."""
    files = {
        "dvc.yaml": PIPELINE,
        "stages/score.py": "from tuneline.loop import steps\n",
        "project/losses.py": "a = 1\n",
        "engine/tuneline/__init__.py": "",
        "engine/tuneline/loop.py": LOOP,
        "engine/tuneline/check.py": "",
        "engine/tuneline/page.py": "",
        "engine/tuneline/core/runtime/errors.py": "",
        "engine/tuneline/templates/words.json": "[1]",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def hash_with(project, file: str, content: str) -> str:
    """Return the hash of the stage with another content of a file; modules are read once, so in a copy."""
    copy = project / f"copy-{len(list(project.iterdir()))}"
    shutil.copytree(project / "engine", copy)
    (copy / "tuneline" / file).write_text(content)
    return engine_hash("score", project, copy)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("loop.py", '"""Of a module."""\n\n\ndef steps():\n    """Return them."""\n    return 3  # many\n'),
        ("loop.py", "def steps(): return (\n    3\n)\n"),
        ("page.py", "b = 2\n"),
        ("check.py", "b = 2\n"),
        ("core/runtime/errors.py", "b = 2\n"),
    ],
    ids=["docstrings", "layout", "not imported", "command before the stage", "changes no out"],
)
def test_engine_hash_stays_where_the_code_of_the_stage_stays(project, file, content):
    assert hash_with(project, file, content) == hash_with(project, "loop.py", LOOP)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("loop.py", "def steps():\n    return 4\n"),
        ("loop.py", f"from tuneline import page\n{LOOP}"),
        ("loop.py", f"{LOOP}\n\ndef unused():\n    from tuneline.page import b\n"),
        ("__init__.py/../templates/words.json", "[2]"),
    ],
    ids=["statement", "import", "late import", "template"],
)
def test_engine_hash_changes_with_the_code_of_the_stage(project, file, content):
    (project / "engine/tuneline/loop.py").write_text(LOOP)
    assert hash_with(project, file.rpartition("../")[2], content) != hash_with(project, "loop.py", LOOP)


def test_engine_hash_has_the_code_that_a_module_beside_the_page_imports(project):
    def hash_of(page: str) -> str:
        (project / "dvc.yaml").write_text(PIPELINE.replace("-m stages.score", f"-m stages.{page}"))
        return engine_hash("score", project, project / "engine")

    (project / "stages/words.py").write_text("from tuneline import page\n")
    (project / "stages/rows.py").write_text("from stages.words import page\n")
    (project / "stages/nothing.py").write_text("")
    assert hash_of("rows") == hash_of("words")
    assert hash_of("rows") != hash_of("nothing")


def test_relative_import_is_refused_where_it_is(project):
    (project / "stages/score.py").write_text("\nfrom . import words\n")
    with pytest.raises(StageError, match=r"stages/score\.py:2 is a relative import"):
        engine_hash("score", project, project / "engine")


def test_code_hash_changes_with_page_and_functions_that_dvc_yaml_lists(project):
    hashes = {code_hash("score")}
    (project / "project/losses.py").write_text("a = 2\n")
    hashes.add(code_hash("score"))
    own = code_hash("score", folders=("stages",))
    (project / "project/losses.py").write_text("a = 3\n")
    assert code_hash("score", folders=("stages",)) == own
    (project / "stages/score.py").write_text("from tuneline.loop import steps  # again\n")
    hashes.add(code_hash("score"))
    assert len(hashes | {own}) == 4


def test_code_hash_has_every_module_of_a_folder(project):
    (project / "dvc.yaml").write_text(PIPELINE.replace("project/losses.py", "project"))
    before = code_hash("score")
    (project / "project/own").mkdir()
    (project / "project/own/words.py").write_text("b = 1\n")
    assert code_hash("score") != before


def test_code_hash_names_a_file_that_does_not_exist(project):
    (project / "project/losses.py").unlink()
    with pytest.raises(StageError, match=r"project/losses\.py"):
        code_hash("score")


def test_every_stage_of_the_pipeline_runs_code_of_the_engine():
    record = engine_record(ROOT)
    assert len(set(record["stages"].values())) == 10


def test_stage_refuses_another_engine_than_that_of_engine_yaml(project):
    require_engine("score")  # a checkout of the engine has no engine.yaml
    file = project / "engine.yaml"
    file.write_text(f"version: 0.0.7\nstages: {{score: {engine_hash('score')}}}\n")
    require_engine("score")
    file.write_text("version: 0.0.7\nstages: {score: 3f}\n")
    with pytest.raises(StageError, match=r"0\.0\.7.*\n.*tuneline upgrade"):
        require_engine("score")
