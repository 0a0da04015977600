"""The refusal of a launch without its devices."""

import json

import pytest
from accelerate.commands.config.default import write_basic_config

from tests.conftest import ROOT
from tuneline.core import launch
from tuneline.core.launch import check_launch, read_launch
from tuneline.runtime.errors import ParamsError


@pytest.fixture
def without_gpu(monkeypatch):
    """The launch configurations of the product, on a machine whose GPUs are hidden."""
    monkeypatch.chdir(ROOT / "tests")
    monkeypatch.delenv("ACCELERATE_USE_CPU", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.mark.parametrize("name", ["multi-node", "fsdp"])
def test_launch_for_gpus_is_refused_without_one(name, without_gpu):
    with pytest.raises(ParamsError, match=rf"{name}\.yaml needs a GPU"):
        check_launch(name)


@pytest.mark.parametrize("name", ["auto", "cpu"])
def test_launch_that_runs_everywhere_is_accepted_without_a_gpu(name, without_gpu):
    check_launch(name)


def test_launch_for_gpus_is_accepted_with_a_driver(monkeypatch, without_gpu):
    monkeypatch.setattr(launch, "why_no_accelerator", lambda: None)
    check_launch("fsdp")


def test_accelerate_use_cpu_lets_a_launch_for_gpus_run_on_cpus(monkeypatch, without_gpu):
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    check_launch("fsdp")


@pytest.fixture
def own_launch(tmp_path, monkeypatch, without_gpu):
    """Return the path of a launch configuration ``mine`` in a project without others."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf/accelerate").mkdir(parents=True)
    return tmp_path / "conf/accelerate/mine.yaml"


def test_file_that_accelerate_config_writes_is_accepted(own_launch):
    """`accelerate config default` writes JSON, whatever the name of the file."""
    write_basic_config(save_location=str(own_launch))
    assert json.loads(own_launch.read_text())["use_cpu"] is True, "this test needs a machine without a GPU"
    check_launch("mine")


def test_launch_file_that_is_no_mapping_is_refused(own_launch):
    own_launch.write_text("- a\n")
    with pytest.raises(ParamsError, match=r"mine\.yaml: expected"):
        check_launch("mine")


def test_unknown_launch_error_lists_the_available_ones(monkeypatch):
    monkeypatch.chdir(ROOT / "tests")
    with pytest.raises(ParamsError, match=r"accelerate/gpus\.yaml"):
        read_launch("gpus")
