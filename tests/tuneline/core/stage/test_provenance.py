from tests.params import change_params, write_params
from tuneline.core.stage.provenance import StageProvenance, code_hash, parameters_hash, stage_provenance

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
