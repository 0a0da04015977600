from tests.params import change_params, write_params
from tuneline.core.stage.code import code_hash
from tuneline.core.stage.provenance import StageProvenance, parameters_hash, stage_provenance

PIPELINE = "stages: {train: {cmd: x, deps: [data/raw], params: [train.epochs, seed, model, other.yaml: [a]]}}"


def test_provenance_has_the_parameters_and_code_that_dvc_yaml_lists(root):
    (root / "dvc.yaml").write_text(PIPELINE)
    write_params(root, seed=7, train={"epochs": 3})
    provenance = stage_provenance("train", ["torch"])
    model = {"checkpoint": None, "revision": None, "config": {"model_type": "bert"}, "head": None}
    assert provenance.parameters == {"model": model, "seed": 7, "train.epochs": 3}
    assert provenance.code == code_hash("train")


def test_changed_parameter_changes_the_hash_of_all(root):
    """Models with the same weights but different parameters can be told apart."""
    (root / "dvc.yaml").write_text(PIPELINE)
    write_params(root)
    before = stage_provenance("train", [])
    change_params(root, {"seed": 99})
    assert parameters_hash({"train": stage_provenance("train", [])}) != parameters_hash({"train": before})
    reordered = StageProvenance(parameters=dict(reversed(before.parameters.items())), code="", libraries={})
    assert parameters_hash({"train": reordered}) == parameters_hash({"train": before})
