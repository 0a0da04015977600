"""Launch configurations, as accelerate parses them: all kinds that the product has, and those that
`accelerate config` writes."""

import contextlib

import pytest
from accelerate.commands.config.default import write_basic_config
from accelerate.utils import FullyShardedDataParallelPlugin
from accelerate.utils.launch import prepare_multi_gpu_env

from stages.train.accelerate_launch import launch_arguments
from tests.conftest import ROOT
from tuneline.core.launch import DeviceChoice
from tuneline.runtime.errors import ParamsError


@pytest.fixture(autouse=True)
def _root(monkeypatch):
    monkeypatch.chdir(ROOT / "tests")
    monkeypatch.delenv("ACCELERATE_USE_CPU")


@pytest.mark.parametrize(
    ("choice", "is_distributed"),
    [
        (DeviceChoice("cpu", 1, "bf16"), False),
        (DeviceChoice("cuda", 1, "bf16"), False),
        (DeviceChoice("cuda", 4, "fp16"), True),
    ],
)
def test_auto_launches_what_was_chosen(choice, is_distributed, caplog):
    arguments = launch_arguments("auto", choice, [])
    assert (arguments.num_processes, arguments.mixed_precision) == (choice.processes, choice.precision)
    assert bool(arguments.multi_gpu) == is_distributed
    assert arguments.use_cpu == (choice.device == "cpu")
    assert "not passed" not in caplog.text


def environment(name):
    """Return the variables that accelerate sets for the processes of a launch on several GPUs."""
    with contextlib.chdir(ROOT / "tests"):
        env = prepare_multi_gpu_env(launch_arguments(name, None, []))
    return {key: value for key, value in env.items() if key.startswith(("ACCELERATE_", "FSDP_"))}


def test_sharded_launch_uses_fsdp2(monkeypatch):
    for key, value in environment("fsdp").items():
        monkeypatch.setenv(key, value)
    plugin = FullyShardedDataParallelPlugin()
    assert plugin.fsdp_version == 2
    assert plugin.reshard_after_forward is True
    assert "SHARDED" in str(plugin.state_dict_type)


@pytest.fixture
def own_launch(tmp_path, monkeypatch):
    """Return the path of a launch configuration ``mine`` in a project without others."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf/accelerate").mkdir(parents=True)
    return tmp_path / "conf/accelerate/mine.yaml"


def test_file_of_accelerate_config_default_is_launched_as_it_is(own_launch, caplog):
    write_basic_config(save_location=str(own_launch))
    arguments = launch_arguments("mine", None, [])
    assert (arguments.num_processes, arguments.mixed_precision) == (1, "no")
    assert "not passed" not in caplog.text


def test_file_that_accelerate_refuses_is_an_error_that_names_it(own_launch):
    own_launch.write_text("distributed_type: 'NO'\ncolour: red\n")
    with pytest.raises(ParamsError, match=r"conf/accelerate/mine\.yaml: accelerate refuses it: .*colour"):
        launch_arguments("mine", None, [])
