"""Launch configurations in conf/accelerate, as accelerate parses them."""

import pytest
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils import FullyShardedDataParallelPlugin
from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env, prepare_simple_launcher_cmd_env

from stages.train.devices import expected_processes
from tests.conftest import ROOT
from tuneline.params.loading import load_params

NAMES = sorted(path.stem for path in (ROOT / "conf/accelerate").glob("*.yaml"))
PROCESSES = {
    "cpu": 1, "gpu": 1, "gpu-bf16": 1, "multi-gpu": 2, "multi-node": 16,
    "fsdp": 2, "fsdp-offload": 2, "zero2-offload": 2, "zero3-offload": 2,
}  # fmt: skip
"""Number of processes of the launch configurations of the product; a user may add others."""
ALONE = ["cpu", "gpu", "gpu-bf16"]
SHARDED = ["fsdp", "fsdp-offload"]


def path(name):
    return ROOT / f"conf/accelerate/{name}.yaml"


def launched(name):
    """Return the arguments of ``accelerate launch`` after its validation."""
    arguments = launch_command_parser().parse_args(["--config_file", str(path(name)), "-m", "stages.train"])
    return _validate_launch_command(arguments)[0]


@pytest.mark.parametrize("name", NAMES)
def test_launch_configuration_has_only_keys_that_accelerate_knows(name):
    """accelerate refuses unknown keys when a run starts."""
    assert load_config_from_file(str(path(name))).num_processes >= 1


@pytest.mark.parametrize(("name", "processes"), PROCESSES.items())
def test_launch_configuration_sets_device_and_processes(name, processes):
    config = load_config_from_file(str(path(name)))
    assert (config.num_processes, config.use_cpu) == (processes, name == "cpu")


@pytest.mark.parametrize("name", ALONE)
def test_launch_of_one_process_uses_the_simple_launcher(name):
    command, env = prepare_simple_launcher_cmd_env(launched(name))
    assert command[-2:] == ["-m", "stages.train"]
    assert env["ACCELERATE_USE_CPU"] == str(name == "cpu")
    assert env["ACCELERATE_MIXED_PRECISION"] == ("bf16" if name == "gpu-bf16" else "no")


def environment(name):
    """Return the variables that accelerate sets for the processes of a launch on several GPUs."""
    env = prepare_multi_gpu_env(launched(name))
    return {key: value for key, value in env.items() if key.startswith(("ACCELERATE_", "FSDP_"))}


@pytest.mark.parametrize("name", ["multi-gpu", "multi-node"])
def test_launch_on_several_gpus_trains_in_bf16(name):
    arguments = launched(name)
    assert arguments.multi_gpu
    assert environment(name)["ACCELERATE_MIXED_PRECISION"] == "bf16"


def test_launch_on_several_machines_names_the_main_one():
    arguments = launched("multi-node")
    assert (arguments.num_machines, arguments.main_process_ip, arguments.main_process_port) == (2, "10.0.0.1", 29500)


@pytest.mark.parametrize("name", SHARDED)
def test_sharded_launch_uses_fsdp2(name, monkeypatch):
    for key, value in environment(name).items():
        monkeypatch.setenv(key, value)
    plugin = FullyShardedDataParallelPlugin()
    assert plugin.fsdp_version == 2
    assert plugin.reshard_after_forward is True
    assert "SHARDED" in str(plugin.state_dict_type)
    assert (type(plugin.cpu_offload).__name__ == "CPUOffloadPolicy") == (name == "fsdp-offload")


@pytest.mark.parametrize(("name", "stage", "parameters"), [("zero2-offload", "2", "none"), ("zero3-offload", "3", "cpu")])
def test_deepspeed_launch_offloads_to_the_cpu(name, stage, parameters):
    arguments = launched(name)
    arguments.deepspeed_fields_from_accelerate_config = ""  # the launcher sets it before this call
    assert arguments.use_deepspeed
    _, env = prepare_deepspeed_cmd_env(arguments)
    assert env["ACCELERATE_DEEPSPEED_ZERO_STAGE"] == stage
    assert env["ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE"] == "cpu"
    assert env["ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE"] == parameters
    assert env["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"] == "1"


def test_default_launch_configuration_exists(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert expected_processes(load_params().train.launch) >= 1
