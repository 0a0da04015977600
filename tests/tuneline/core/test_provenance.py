import pytest

from tests.params import change_params, write_params
from tuneline.core.pipeline_code import code_hash
from tuneline.core.provenance import DevicesUsed, StageProvenance, parameters_hash, stage_provenance
from tuneline.core.written_records import write_record
from tuneline.runtime.errors import StageError

PIPELINE = (
    "stages: {train: {cmd: x, deps: [data/raw, stages/download, tuneline/paths.py], params:"
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
    write_record(root / "train.json", stage_provenance("train", [], root, used))
    assert StageProvenance.read(root / "train.json").devices == used
    assert str(used) == "cuda, bf16, 2 processes (MULTI_GPU)"


def test_provenance_without_devices_has_no_key_for_them(root, code):
    (root / "dvc.yaml").write_text(PIPELINE)
    write_params(root)
    write_record(root / "train.json", stage_provenance("train", [], root))
    assert "devices" not in (root / "train.json").read_text()
