"""Launch configurations, as accelerate parses them: all kinds that the product has, and those that
`accelerate config` writes."""

import contextlib

import pytest
from accelerate.commands.config.config_args import ClusterConfig, load_config_from_file
from accelerate.commands.config.default import write_basic_config
from accelerate.utils import FullyShardedDataParallelPlugin
from accelerate.utils.launch import (
    prepare_deepspeed_cmd_env,
    prepare_multi_gpu_env,
    prepare_simple_launcher_cmd_env,
)

from stages.train.accelerate_launch import (
    chosen_flags,
    machine_flags,
    parse_launch,
    threads_per_process,
    validate,
)
from tests.conftest import ROOT
from tuneline.core.launch import DeviceChoice
from tuneline.runtime.errors import ParamsError

PROCESSES = {
    "cpu": 1, "gpu": 1, "gpu-bf16": 1, "multi-gpu": 2, "multi-node": 16,
    "fsdp": 2, "fsdp-offload": 2, "zero2-offload": 2, "zero3-offload": 2,
}  # fmt: skip
"""Number of processes of the launch configurations in tests/conf."""
ALONE = ["cpu", "gpu", "gpu-bf16"]
SHARDED = ["fsdp", "fsdp-offload"]


def path(name):
    return ROOT / f"tests/conf/accelerate/{name}.yaml"


@pytest.fixture(autouse=True)
def _root(monkeypatch):
    monkeypatch.chdir(ROOT / "tests")
    monkeypatch.delenv("ACCELERATE_USE_CPU")


def launched(name, choice=None, *flags):
    """Return the arguments of ``accelerate launch`` after its validation."""
    return validate(name, parse_launch(name, [*chosen_flags(name, choice), *flags]), choice)


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
    with contextlib.chdir(ROOT / "tests"):
        env = prepare_multi_gpu_env(launched(name))
    return {key: value for key, value in env.items() if key.startswith(("ACCELERATE_", "FSDP_"))}


@pytest.mark.parametrize("name", ["multi-gpu", "multi-node"])
def test_launch_on_several_gpus_trains_in_bf16(name):
    arguments = launched(name)
    assert arguments.multi_gpu
    assert environment(name)["ACCELERATE_MIXED_PRECISION"] == "bf16"


def test_launch_on_several_machines_names_the_main_one():
    arguments = launched("multi-node")
    assert (arguments.num_machines, arguments.main_process_ip, arguments.main_process_port) == (
        2,
        "10.0.0.1",
        29500,
    )


@pytest.mark.parametrize("name", SHARDED)
def test_sharded_launch_uses_fsdp2(name, monkeypatch):
    for key, value in environment(name).items():
        monkeypatch.setenv(key, value)
    plugin = FullyShardedDataParallelPlugin()
    assert plugin.fsdp_version == 2
    assert plugin.reshard_after_forward is True
    assert "SHARDED" in str(plugin.state_dict_type)
    assert (type(plugin.cpu_offload).__name__ == "CPUOffloadPolicy") == (name == "fsdp-offload")


@pytest.mark.parametrize(
    ("name", "stage", "parameters"), [("zero2-offload", "2", "none"), ("zero3-offload", "3", "cpu")]
)
def test_deepspeed_launch_offloads_to_the_cpu(name, stage, parameters):
    arguments = launched(name)
    arguments.deepspeed_fields_from_accelerate_config = ""  # the launcher sets it before this call
    assert arguments.use_deepspeed
    _, env = prepare_deepspeed_cmd_env(arguments)
    assert env["ACCELERATE_DEEPSPEED_ZERO_STAGE"] == stage
    assert env["ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE"] == "cpu"
    assert env["ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE"] == parameters
    assert env["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"] == "1"


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_auto_on_one_device_is_launched_in_the_precision_that_was_chosen(precision):
    arguments = launched("auto", DeviceChoice("cuda", 1, precision))
    assert (arguments.num_processes, arguments.use_cpu, arguments.multi_gpu) == (1, False, False)
    assert prepare_simple_launcher_cmd_env(arguments)[1]["ACCELERATE_MIXED_PRECISION"] == precision


def test_auto_on_several_gpus_is_launched_by_ddp():
    arguments = launched("auto", DeviceChoice("cuda", 4, "bf16"))
    assert (arguments.num_processes, arguments.multi_gpu) == (4, True)
    assert prepare_multi_gpu_env(arguments)["ACCELERATE_MIXED_PRECISION"] == "bf16"
    assert arguments.nproc_per_node == "4"


def test_auto_on_the_cpu_is_launched_on_the_cpu():
    assert (
        prepare_simple_launcher_cmd_env(launched("auto", DeviceChoice("cpu", 1, "no")))[1][
            "ACCELERATE_USE_CPU"
        ]
        == "True"
    )


def test_flags_of_the_command_line_win():
    """Several machines share one file; each has its own rank."""
    assert launched("multi-node", None, "--machine_rank", "1").machine_rank == 1


def test_machines_of_a_scheduler_win_over_the_file():
    environ = {
        "PET_NNODES": "3",
        "PET_NODE_RANK": "2",
        "PET_MASTER_ADDR": "node1",
        "PET_MASTER_PORT": "29501",
        "PET_NPROC_PER_NODE": "4",
    }
    arguments = launched("multi-node", None, *machine_flags("multi-node", environ))
    assert (arguments.num_machines, arguments.machine_rank, arguments.num_processes) == (3, 2, 12)
    assert (arguments.main_process_ip, arguments.main_process_port) == ("node1", 29501)
    assert machine_flags("auto", {"PET_NNODES": "1"}) == []
    with pytest.raises(ParamsError, match="PET_NNODES is 3"):
        machine_flags("cpu", environ)
    with pytest.raises(ParamsError, match="PET_NNODES is '1:4'"):
        machine_flags("multi-node", {"PET_NNODES": "1:4"})


def test_processes_without_a_number_are_the_gpus_of_all_machines(own_launch):
    """Here is no GPU that could be counted: one process on each machine."""
    own_launch.write_text(
        "distributed_type: MULTI_GPU\nnum_machines: 2\nmain_process_ip: 10.0.0.1\nmain_process_port: 29500\n"
    )
    assert chosen_flags("mine", None, ["--num_machines", "3"]) == ["--num_processes", "3"]
    assert chosen_flags("mine", None, ["--num_processes", "6"]) == []


def test_threads_are_divided_by_the_processes_of_the_machine(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "24")
    assert threads_per_process(launched("multi-node")) == 24 // 8
    assert threads_per_process(launched("multi-gpu")) == 12


@pytest.fixture
def own_launch(tmp_path, monkeypatch):
    """Return the path of a launch configuration ``mine`` in a project without others."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf/accelerate").mkdir(parents=True)
    return tmp_path / "conf/accelerate/mine.yaml"


def test_file_of_accelerate_config_default_is_launched_as_it_is(own_launch, caplog):
    write_basic_config(save_location=str(own_launch))
    arguments = launched("mine")
    assert (arguments.num_processes, arguments.mixed_precision) == (1, "no")
    assert "not passed" not in caplog.text


def written(path, distributed_type, **keys):
    ClusterConfig(
        "LOCAL_MACHINE",
        distributed_type,
        keys.pop("precision", "no"),
        keys.pop("use_cpu", False),
        False,
        **keys,
    ).to_yaml_file(path)


def test_file_of_accelerate_config_for_gpus_is_launched_as_it_is(own_launch, caplog):
    written(own_launch, "MULTI_GPU", precision="fp16", num_processes=4, gpu_ids="0,1,2,3")
    arguments = launched("mine")
    assert (arguments.num_processes, arguments.multi_gpu, arguments.mixed_precision) == (4, True, "fp16")
    assert prepare_multi_gpu_env(arguments)["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"
    assert "not passed" not in caplog.text


@pytest.mark.parametrize(
    ("gpu_ids", "machines", "processes"), [("1,3", 1, 2), ("0,1,2", 2, 6), ("all", 1, 1)]
)
def test_missing_number_of_processes_is_the_number_of_gpus(own_launch, gpu_ids, machines, processes):
    """accelerate refuses such a file; here is no GPU that could be counted, so `all` are one process."""
    own_launch.write_text(
        f"distributed_type: MULTI_GPU\ngpu_ids: {gpu_ids}\nnum_machines: {machines}\nmain_process_ip:"
        " 10.0.0.1\n"
    )
    assert launched("mine").num_processes == processes


def test_missing_number_of_processes_is_one_without_distribution(own_launch):
    own_launch.write_text("distributed_type: 'NO'\nuse_cpu: true\n")
    assert launched("mine").num_processes == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [("distributed_type: 'NO'\ncolour: red\n", "colour"), ("use_cpu: true\n", "distributed_type")],
)
def test_file_that_accelerate_refuses_is_an_error_that_names_it(own_launch, content, reason):
    own_launch.write_text(content)
    with pytest.raises(ParamsError, match=rf"conf/accelerate/mine\.yaml: accelerate refuses it: .*{reason}"):
        launched("mine")
