import pytest

from tests.project import copy_code
from tuneline.core.stage.provenance import code_hash, stage_code


def test_code_hash_changes_with_the_contents_of_a_file(root, code):
    before = code_hash(root, code)
    (root / code[1] / "files.py").write_text("b = 3\n")
    assert code_hash(root, code) != before


def test_code_hash_ignores_other_files_and_the_order_of_paths(root, code):
    before = code_hash(root, code)
    (root / code[1] / "__pycache__").mkdir()
    (root / code[1] / "__pycache__/files.cpython-311.pyc").write_bytes(b"x")
    assert code_hash(root, code[::-1]) == before


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the pipeline's code. A test restores what it changes."""
    folder = tmp_path_factory.mktemp("code")
    copy_code(folder)
    return folder


@pytest.mark.parametrize(
    ("stage", "file", "concerns"),
    [
        ("train", "tuneline/judge/metrics/scores.py", True),
        ("train", "tuneline/core/runtime/files.py", False),
        ("train", "tuneline/training/loop.py", True),
        ("train", "tuneline/cli/__init__.py", False),
        ("download", "tuneline/rows/reading/rows.py", True),
        ("download", "tuneline/judge/evaluation/scoring.py", False),
    ],
)
def test_stage_is_continued_only_by_the_code_that_it_depends_on(copy, stage, file, concerns):
    """Parameters are in the key by their values, so a docstring of theirs changes nothing."""
    before, text = stage_code(stage, copy), (copy / file).read_text()
    (copy / file).write_text(f"{text}# another formula\n")
    after = stage_code(stage, copy)
    (copy / file).write_text(text)
    assert (after != before) == concerns
