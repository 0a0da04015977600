from pathlib import Path

import pytest

from tests.conftest import ROOT
from tuneline.cli.explain.reference import REQUIRED, VARIES, Parameter, find, flow, nested, read_reference, walk
from tuneline.params.loading import known_keys, read_yaml


@pytest.fixture(scope="module")
def reference():
    return read_reference(ROOT)


def reference_of(folder: Path, base: str) -> tuple[Parameter, ...]:
    """Return the reference of a project with other defaults and without stages."""
    (folder / "conf").mkdir()
    (folder / "conf/base.yaml").write_text(base)
    (folder / "dvc.yaml").write_text("stages: {}\n")
    return read_reference(folder)


def test_every_parameter_has_a_meaning(reference):
    """It is the docstring below the key."""
    assert not [parameter.key for parameter in walk(reference) if not parameter.meaning]


def test_reference_has_every_known_key(reference):
    assert set(known_keys(optional=True)) <= {parameter.key for parameter in walk(reference)}


def test_defaults_are_those_of_base_yaml(reference):
    base = read_yaml(ROOT / "conf/base.yaml")
    assert find(reference, "train.learning_rate").default == flow(base["train"]["learning_rate"])
    assert find(reference, "validate.duplicates.max").default == flow(base["validate"]["duplicates"]["max"])


def test_key_that_every_task_sets_is_required(tmp_path):
    assert find(reference_of(tmp_path, "data: {path: null}\n"), "data.text_columns").default is REQUIRED


def test_optional_section_has_the_defaults_of_its_model(tmp_path):
    reference = reference_of(tmp_path, "train: {lora: null, early_stopping: null}\n")
    assert find(reference, "train.lora.rank").default == "8"
    assert find(reference, "train.early_stopping.patience").default is REQUIRED


def test_data_check_without_a_field_of_its_own_is_a_parameter(tmp_path):
    reference = reference_of(tmp_path, "validate: {profanity: {severity: warning, max: 0.25}}\n")
    check = find(reference, "validate.profanity")
    assert check.meaning == "A check with an upper limit for a fraction."
    assert [(parameter.key, parameter.default) for parameter in check.children] == [
        ("validate.profanity.severity", "warning"),
        ("validate.profanity.max", "0.25"),
    ]


def test_keys_in_common_have_a_default_only_where_it_is_the_same(reference):
    common = {parameter.key: parameter.default for parameter in nested(find(reference, "compare"))}
    base = read_yaml(ROOT / "conf/base.yaml")["compare"]
    for key in ("min_agreement", "required"):
        values = {flow(base[precision][key]) for precision in ("fp32", "fp16", "int8")}
        assert common[f"compare.*.{key}"] == (values.pop() if len(values) == 1 else VARIES)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (0.5, "0.5"),
        ("utf-8", "utf-8"),
        (";", '";"'),
        ("null", '"null"'),
        ("1", '"1"'),
        ("train[:90%]", '"train[:90%]"'),
        ([0.9, 0.999], "[0.9, 0.999]"),
        ({"rank": 8, "target_modules": None}, "{rank: 8, target_modules: null}"),
        ({}, "{}"),
    ],
)
def test_value_is_yaml_on_one_line(value, text, tmp_path):
    assert flow(value) == text
    (tmp_path / "value.yaml").write_text(text)
    assert read_yaml(tmp_path / "value.yaml") == value
