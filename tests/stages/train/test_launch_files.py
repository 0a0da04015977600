"""The launch configurations in conf/accelerate, those of a user included, as accelerate and the training
stage read them."""

from pathlib import Path

import pytest
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.utils import FullyShardedDataParallelPlugin
from accelerate.utils.launch import (
    prepare_deepspeed_cmd_env,
    prepare_multi_gpu_env,
    prepare_simple_launcher_cmd_env,
)

from stages.train.accelerate_launch import chosen_flags, parse_launch, validate
from tests.conftest import ROOT
from tuneline.core.launch import AUTO, DeviceChoice, read_launch
from tuneline.params.loading import load_params

PATHS = sorted((ROOT / "conf/accelerate").glob("*.yaml"))


@pytest.fixture(autouse=True)
def _root(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("ACCELERATE_USE_CPU")


def of_type(*kinds: str) -> list[Path]:
    """Return the launch configurations with one of these distributed types."""
    files = [path for path in PATHS if path.stem != AUTO]
    return [
        path
        for path in files
        if any(f"distributed_type: {kind}\n" in path.read_text(encoding="utf-8") for kind in kinds)
    ]


def every(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)


def launched(path):
    """Return the arguments of ``accelerate launch`` after its validation."""
    choice = DeviceChoice("cpu", 1, "no") if path.stem == AUTO else None
    return validate(path.stem, parse_launch(path.stem, chosen_flags(path.stem, choice)), choice)


@every(PATHS)
def test_launch_configuration_is_accepted_by_accelerate(path):
    """accelerate refuses unknown keys when a run starts."""
    assert launched(path).num_processes >= 1


@every(of_type("'NO'", "NO"))
def test_launch_of_one_process_has_the_device_and_the_precision_of_its_file(path):
    config = load_config_from_file(str(path))
    command, env = prepare_simple_launcher_cmd_env(launched(path))
    assert command[-2:] == ["-m", "stages.train"]
    assert env["ACCELERATE_USE_CPU"] == str(config.use_cpu)
    assert env["ACCELERATE_MIXED_PRECISION"] == str(config.mixed_precision or "no")


@every(of_type("MULTI_GPU", "FSDP"))
def test_launch_on_several_gpus_has_the_precision_of_its_file(path):
    assert prepare_multi_gpu_env(launched(path))["ACCELERATE_MIXED_PRECISION"] == str(
        load_config_from_file(str(path)).mixed_precision
    )


@every(of_type("MULTI_GPU"))
def test_launch_on_several_machines_names_the_main_one(path):
    arguments = launched(path)
    assert arguments.multi_gpu
    assert arguments.num_machines == 1 or (arguments.main_process_ip and arguments.main_process_port)


@every(of_type("FSDP"))
def test_sharded_launch_uses_fsdp2(path, monkeypatch):
    for key, value in prepare_multi_gpu_env(launched(path)).items():
        if key.startswith(("ACCELERATE_", "FSDP_")):
            monkeypatch.setenv(key, value)
    plugin = FullyShardedDataParallelPlugin()
    assert plugin.fsdp_version == 2
    assert "SHARDED" in str(plugin.state_dict_type)


@every(of_type("DEEPSPEED"))
def test_deepspeed_launch_leaves_gradient_accumulation_to_the_training_loop(path):
    arguments = launched(path)
    arguments.deepspeed_fields_from_accelerate_config = ""  # the launcher sets it before this call
    assert prepare_deepspeed_cmd_env(arguments)[1]["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"] == "1"


def test_launch_configuration_named_in_params_yaml_exists():
    read_launch(load_params().train.launch)
