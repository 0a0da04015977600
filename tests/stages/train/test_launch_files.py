"""The launch configurations in conf/accelerate, those of a user included, as accelerate and the training stage read them."""

from pathlib import Path

import pytest
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils import FullyShardedDataParallelPlugin
from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env, prepare_simple_launcher_cmd_env

from stages.train.devices import expected_processes
from tests.conftest import ROOT
from tuneline.params.loading import load_params

PATHS = sorted((ROOT / "conf/accelerate").glob("*.yaml"))
OWN = ROOT / "tests/conf/accelerate"
"""Launch configurations of the tests."""


def of_type(*kinds: str) -> list[Path]:
    """Return the launch configurations with one of these distributed types."""
    return [path for path in PATHS if any(f"distributed_type: {kind}\n" in path.read_text(encoding="utf-8") for kind in kinds)]


def every(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)


def launched(path):
    """Return the arguments of ``accelerate launch`` after its validation."""
    arguments = launch_command_parser().parse_args(["--config_file", str(path), "-m", "stages.train"])
    return _validate_launch_command(arguments)[0]


def environment(path):
    """Return the variables that accelerate sets for the processes of a launch on several GPUs."""
    env = prepare_multi_gpu_env(launched(path))
    return {key: value for key, value in env.items() if key.startswith(("ACCELERATE_", "FSDP_"))}


@every(PATHS)
def test_launch_configuration_has_only_keys_that_accelerate_knows(path, monkeypatch):
    """accelerate refuses unknown keys when a run starts."""
    monkeypatch.chdir(ROOT)
    assert load_config_from_file(str(path)).num_processes == expected_processes(path.stem) >= 1
    assert launched(path).training_script == "stages.train"


@every(of_type("'NO'", "NO"))
def test_launch_of_one_process_has_the_device_and_the_precision_of_its_file(path):
    config = load_config_from_file(str(path))
    command, env = prepare_simple_launcher_cmd_env(launched(path))
    assert config.num_processes == 1, "distributed_type 'NO' starts one process"
    assert command[-2:] == ["-m", "stages.train"]
    assert env["ACCELERATE_USE_CPU"] == str(config.use_cpu)
    assert env["ACCELERATE_MIXED_PRECISION"] == str(config.mixed_precision)


@every(of_type("MULTI_GPU", "FSDP"))
def test_launch_on_several_gpus_has_the_precision_of_its_file(path):
    assert environment(path)["ACCELERATE_MIXED_PRECISION"] == str(load_config_from_file(str(path)).mixed_precision)


@every(of_type("MULTI_GPU"))
def test_launch_on_several_machines_names_the_main_one(path):
    arguments = launched(path)
    assert arguments.multi_gpu
    assert arguments.num_machines == 1 or (arguments.main_process_ip and arguments.main_process_port)


@every(of_type("FSDP"))
def test_sharded_launch_uses_fsdp2(path, monkeypatch):
    for key, value in environment(path).items():
        monkeypatch.setenv(key, value)
    plugin = FullyShardedDataParallelPlugin()
    config = load_config_from_file(str(path)).fsdp_config
    assert plugin.fsdp_version == 2
    assert "SHARDED" in str(plugin.state_dict_type)
    assert (type(plugin.cpu_offload).__name__ == "CPUOffloadPolicy") == config["fsdp_offload_params"]


@every(of_type("DEEPSPEED"))
def test_deepspeed_launch_leaves_gradient_accumulation_to_the_training_loop(path):
    arguments = launched(path)
    arguments.deepspeed_fields_from_accelerate_config = ""  # the launcher sets it before this call
    assert arguments.use_deepspeed
    _, env = prepare_deepspeed_cmd_env(arguments)
    config = load_config_from_file(str(path)).deepspeed_config
    assert env["ACCELERATE_DEEPSPEED_ZERO_STAGE"] == str(config["zero_stage"])
    assert env["ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE"] == config["offload_optimizer_device"]
    assert env["ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE"] == config["offload_param_device"]
    assert env["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"] == "1"


def test_default_launch_configuration_exists(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert expected_processes(load_params().train.launch) >= 1
