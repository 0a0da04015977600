"""The refusal of a launch without its devices."""

import json

import pytest
from accelerate.commands.config.config_args import ClusterConfig
from accelerate.commands.config.default import write_basic_config

from tests.conftest import ROOT
from tuneline.core import launch
from tuneline.core.launch import check_launch, offloads_optimizer, read_launch
from tuneline.runtime.errors import ParamsError


@pytest.fixture
def without_gpu(monkeypatch):
    """The launch configurations of the product, on a machine whose GPUs are hidden."""
    monkeypatch.chdir(ROOT / "tests")
    monkeypatch.delenv("ACCELERATE_USE_CPU", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.mark.parametrize("name", ["gpu", "gpu-bf16", "multi-gpu", "multi-node", "fsdp", "zero2-offload"])
def test_launch_for_gpus_is_refused_without_one(name, without_gpu):
    with pytest.raises(
        ParamsError,
        match=rf"{name}\.yaml needs a GPU",
    ):
        check_launch(name, "adamw")


@pytest.mark.parametrize("name", ["auto", "cpu"])
def test_launch_that_runs_everywhere_is_accepted_without_a_gpu(name, without_gpu):
    check_launch(name, "adamw")


def test_launch_for_gpus_is_accepted_with_a_driver(monkeypatch, without_gpu):
    monkeypatch.setattr(launch, "why_no_accelerator", lambda: None)
    check_launch("multi-gpu", "adamw")


def test_accelerate_use_cpu_lets_a_launch_for_gpus_run_on_cpus(monkeypatch, without_gpu):
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    check_launch("multi-gpu", "adamw")


@pytest.mark.parametrize("optimizer", ["sgd", "adafactor"])
@pytest.mark.parametrize("name", ["zero2-offload", "zero3-offload"])
def test_optimizer_that_accelerate_would_replace_is_refused(name, optimizer, monkeypatch, without_gpu):
    monkeypatch.setattr(launch, "why_no_accelerator", lambda: None)
    with pytest.raises(
        ParamsError,
        match=(
            rf"(?s)train\.optimizer: .*{name}\.yaml.* replaces {optimizer} by.*Set train\.optimizer to adamw"
        ),
    ):
        check_launch(name, optimizer)
    check_launch("fsdp-offload", optimizer)
    check_launch(name, "adam")


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
    check_launch("mine", "adamw")


@pytest.mark.parametrize("distributed_type", ["MULTI_NPU", "XLA", "MULTI_XPU"])
def test_devices_that_are_not_known_here_are_left_to_accelerate(own_launch, distributed_type):
    ClusterConfig("LOCAL_MACHINE", distributed_type, "no", False, False, num_processes=2).to_yaml_file(
        own_launch
    )
    check_launch("mine", "adamw")


@pytest.mark.parametrize(
    ("offload", "force", "offloads"),
    [({"device": "cpu"}, None, True), ({"device": "cpu"}, False, False), ({"device": "none"}, None, False)],
)
def test_offload_is_found_in_a_file_of_deepspeed(own_launch, offload, force, offloads):
    forced = {} if force is None else {"zero_force_ds_cpu_optimizer": force}
    (own_launch.parent / "zero.json").write_text(
        json.dumps({"zero_optimization": {"stage": 2, "offload_optimizer": offload}, **forced})
    )
    config = {
        "distributed_type": "DEEPSPEED",
        "deepspeed_config": {"deepspeed_config_file": "conf/accelerate/zero.json"},
    }
    assert offloads_optimizer(config) == offloads


def test_launch_file_that_is_no_mapping_is_refused(own_launch):
    own_launch.write_text("- a\n")
    with pytest.raises(ParamsError, match=r"mine\.yaml: expected"):
        check_launch("mine", "adamw")


def test_unknown_launch_error_lists_the_available_ones(monkeypatch):
    monkeypatch.chdir(ROOT / "tests")
    with pytest.raises(ParamsError, match=r"accelerate/gpus\.yaml"):
        read_launch("gpus")
