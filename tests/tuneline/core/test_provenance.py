import hashlib
import shutil
import subprocess

import pytest

from tests.params import change_params, write_params
from tests.project import copy_code
from tuneline.core.errors import StageError
from tuneline.core.files import file_hash
from tuneline.core.provenance import (
    DevicesUsed,
    StageProvenance,
    code_hash,
    parameters_hash,
    split_hash,
    stage_code,
    stage_provenance,
)


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


def test_code_hash_changes_with_the_contents_of_a_file(root, code):
    before = code_hash(root, code)
    (root / code[1] / "files.py").write_text("b = 3\n")
    assert code_hash(root, code) != before


def test_code_hash_changes_with_the_name_of_a_file(root, code):
    before = code_hash(root, code)
    (root / code[1] / "files.py").rename(root / code[1] / "other.py")
    assert code_hash(root, code) != before


def test_code_hash_ignores_other_files_and_the_order_of_paths(root, code):
    before = code_hash(root, code)
    (root / code[1] / "__pycache__").mkdir()
    (root / code[1] / "__pycache__/files.cpython-311.pyc").write_bytes(b"x")
    assert code_hash(root, code[::-1]) == before


def test_code_hash_names_a_missing_path(root, code):
    with pytest.raises(StageError, match=r"tuneline/core/errors\.py"):
        code_hash(root, [*code, "tuneline/core/errors.py"])


PIPELINE = (
    "stages: {train: {cmd: x, deps: [data/raw, stages/download, tuneline/core/paths.py], params:"
    " [train.epochs, seed, model]}}"
)


def test_provenance_has_the_parameters_and_code_that_dvc_yaml_lists(root, code):
    (root / "dvc.yaml").write_text(PIPELINE)
    write_params(root, seed=7, train={"epochs": 3})
    provenance = stage_provenance("train", ["torch"], root)
    model = {"checkpoint": None, "revision": None, "config": {"model_type": "bert"}, "head": None}
    assert provenance.parameters == {"model": model, "seed": 7, "train.epochs": 3}
    assert provenance.code == code_hash(root, code)


def test_versions_of_libraries_have_no_build_tag(root, code):
    (root / "dvc.yaml").write_text(PIPELINE)
    write_params(root)
    libraries = stage_provenance("train", ["torch", "numpy"], root).libraries
    assert libraries.keys() == {"torch", "numpy"}
    assert all(version[0].isdigit() and "+" not in version for version in libraries.values())


def test_parameter_that_params_yaml_lacks_is_named(root, code):
    (root / "dvc.yaml").write_text(PIPELINE.replace("seed", "sed"))
    write_params(root)
    with pytest.raises(StageError, match="'sed'"):
        stage_provenance("train", [], root)


def test_changed_parameter_changes_the_hash_of_all(root, code):
    """Models with the same weights but different parameters can be told apart."""
    (root / "dvc.yaml").write_text(PIPELINE)
    write_params(root)
    before = stage_provenance("train", [], root)
    change_params(root, {"seed": 99})
    assert parameters_hash({"train": stage_provenance("train", [], root)}) != parameters_hash(
        {"train": before}
    )
    reordered = StageProvenance(parameters=dict(reversed(before.parameters.items())), code="", libraries={})
    assert parameters_hash({"train": reordered}) == parameters_hash({"train": before})


def test_provenance_of_a_training_names_its_devices(root, code):
    (root / "dvc.yaml").write_text(PIPELINE)
    write_params(root)
    used = DevicesUsed(type="cuda", precision="bf16", processes=2, distribution="MULTI_GPU")
    stage_provenance("train", [], root, used).write(root / "train.json")
    assert StageProvenance.read(root / "train.json").devices == used
    assert str(used) == "cuda, bf16, 2 processes (MULTI_GPU)"


def test_provenance_without_devices_has_no_key_for_them(root, code):
    (root / "dvc.yaml").write_text(PIPELINE)
    write_params(root)
    stage_provenance("train", [], root).write(root / "train.json")
    assert "devices" not in (root / "train.json").read_text()


def test_hash_of_a_split_is_that_of_its_file_or_of_the_list_of_its_shards(root):
    shards = [root / f"train-{number:05d}-of-00002.parquet" for number in range(2)]
    for number, path in enumerate(shards):
        path.write_bytes(bytes([number]))
    assert split_hash(shards[:1]) == file_hash(shards[0])
    listed = subprocess.run(
        ["sha256sum", *(path.name for path in shards)], cwd=root, capture_output=True, check=True
    ).stdout
    assert split_hash(shards) == hashlib.sha256(listed).hexdigest()
    shutil.copy(shards[0], shards[1])
    assert split_hash(shards) != hashlib.sha256(listed).hexdigest()


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the pipeline's code. A test restores what it changes."""
    folder = tmp_path_factory.mktemp("code")
    copy_code(folder)
    return folder


@pytest.mark.parametrize(
    ("stage", "file", "concerns"),
    [
        ("train", "tuneline/metrics/scores.py", True),
        ("train", "tuneline/core/locks.py", True),
        ("train", "stages/train/loop.py", True),
        ("train", "tuneline/cli/__init__.py", False),
        ("train", "tuneline/params/train.py", False),
        ("train", "tuneline/readers/rows.py", False),
        ("train", "stages/evaluate/__main__.py", False),
        ("download", "tuneline/readers/rows.py", True),
        ("download", "tuneline/analysis/splitting.py", True),
        ("download", "tuneline/cli/__init__.py", False),
        ("download", "tuneline/params/data.py", False),
        ("download", "tuneline/evaluation/scoring.py", False),
    ],
)
def test_stage_is_continued_only_by_the_code_that_it_depends_on(copy, stage, file, concerns):
    """Parameters are in the key by their values, so a docstring of theirs changes nothing."""
    before, text = stage_code(stage, copy), (copy / file).read_text()
    (copy / file).write_text(f"{text}# another formula\n")
    after = stage_code(stage, copy)
    (copy / file).write_text(text)
    assert (after != before) == concerns
