import pytest

from tests.conftest import ROOT
from tuneline.cli.explain import REQUIRED, VARIES, find_parameter, flow, nested, read_reference, walk
from tuneline.core.yaml_files import read_yaml
from tuneline.params.loading import default_values, known_keys
from tuneline.settings import Settings


@pytest.fixture(scope="module")
def reference():
    return read_reference(ROOT)


def test_every_parameter_has_a_meaning(reference):
    """It is the docstring below the key."""
    assert not [parameter.key for parameter in walk(reference) if not parameter.meaning]


def test_reference_has_every_known_key(reference):
    keys = {parameter.key for parameter in walk(reference)}
    assert set(known_keys(optional=True)) <= keys
    assert set(known_keys(Settings, "flows.", optional=True)) <= keys


def test_defaults_are_those_that_tasks_start_from(reference):
    defaults = default_values()
    assert find_parameter(reference, "train.learning_rate").default == flow(
        defaults["train"]["learning_rate"]
    )
    assert find_parameter(reference, "data.files").default == flow(defaults["data"]["files"])
    assert find_parameter(reference, "validate.duplicates").default == flow(
        defaults["validate"]["duplicates"]
    )


def test_only_the_columns_have_no_default(reference):
    """Every task sets them. A section that may be null says what it needs itself."""
    without = [
        parameter.key
        for parameter in walk(reference)
        if parameter.default is REQUIRED and parameter.type != "" and not parameter.key.startswith("flows.")
    ]
    assert [key for key in without if not key.startswith(("train.", "data.label_sets."))] == [
        "data.text_columns",
        "data.label_column",
    ]


def test_optional_section_has_the_defaults_of_its_model(reference):
    assert find_parameter(reference, "train.lora.rank").default == "8"
    assert find_parameter(reference, "train.early_stopping.patience").default is REQUIRED


def test_keys_in_common_have_a_default_only_where_it_is_the_same(reference):
    common = {parameter.key: parameter.default for parameter in nested(find_parameter(reference, "compare"))}
    defaults = default_values()["compare"]
    for key in ("min_agreement", "required"):
        values = {flow(defaults[precision][key]) for precision in ("fp32", "fp16", "int8")}
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
