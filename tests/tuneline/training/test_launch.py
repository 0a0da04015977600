"""Runs started as DVC starts them: the choice of the device, what is printed last, exit codes, and no process
that is left behind."""

import contextlib
import json
import subprocess
import sys

import pytest
from accelerate.commands.config.default import write_basic_config
from accelerate.utils import FullyShardedDataParallelPlugin
from accelerate.utils.launch import prepare_multi_gpu_env

from tests.conftest import ROOT
from tests.tuneline.training import launcher
from tests.tuneline.training.launched import LONG, Launch, assert_gone, launches
from tuneline.core.runtime.errors import ParamsError
from tuneline.core.stage.launch import DeviceChoice
from tuneline.training.launch import launch_arguments


@pytest.fixture
def launch(tmp_path, data):
    """Return a function that launches a training with some parameters."""
    with launches(tmp_path, data) as start:
        yield start


def test_launch_for_a_gpu_without_one_ends_at_once_with_our_message(launch):
    """accelerate would train on the CPU and exit with 0."""
    code, lines = launch(launch="multi-node").end()
    assert code == 78
    assert lines[0].startswith(
        "train: train.launch: conf/accelerate/multi-node.yaml needs a GPU, and there is none: "
    )
    assert lines[1:] == ["  Set train.launch to auto, for the best devices of each machine, or to cpu."]


def test_auto_trains_on_the_cpu_where_there_is_nothing_else_and_records_it(launch):
    run = launch()
    code, lines = run.end()
    assert code == 0, lines
    assert lines[0].startswith("train: auto chooses the CPU, float32 (")
    assert lines[1].startswith("train: cpu ")
    assert not [line for line in lines if "not passed" in line or "Warning" in line or "Traceback" in line]
    provenance = json.loads((run.project / "reports/provenance/train.json").read_text())
    assert provenance["devices"] == {"type": "cpu", "precision": "no", "processes": 1, "distribution": "NO"}


@pytest.mark.parametrize("stop", [pytest.param("launcher", marks=pytest.mark.slow), "group"])
def test_signal_saves_a_checkpoint_and_the_last_line_says_how_to_resume(launch, stop):
    """Ctrl-C reaches all processes of the terminal."""
    run = launch(**LONG)
    processes = run.wait_for_steps()
    run.stop(stop)
    code, lines = run.end()
    assert code == 75, lines
    assert "interrupted by SIG" in lines[-1]
    assert lines[-1].endswith("Run `dvc repro` to resume from it.")
    assert_gone(processes)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["auto", "cpus"])
def test_error_of_the_training_is_printed_once_and_last(launch, name):
    code, lines = launch(launch=name, class_weights={"purple": 2.0}).end()
    assert code == 78
    assert [
        line
        for line in lines
        if line.startswith("train: train.class_weights: 'purple' is not a class of the data")
    ] == [lines[-2]]
    assert not [line for line in lines if "Traceback" in line or "FAILED" in line]


@pytest.mark.slow
def test_two_processes_on_the_cpu_are_started_by_the_launcher(launch):
    """accelerate alone would start one."""
    run = launch(launch="cpus")
    code, lines = run.end()
    assert code == 0, lines
    assert [line for line in lines if "2 process(es), MULTI_CPU" in line]
    assert (
        json.loads((run.project / "reports/provenance/train.json").read_text())["devices"]["processes"] == 2
    )


def resumed_lines(run: Launch) -> list[str]:
    """Stop a run that resumes when it has trained on, and return what it printed."""
    newest = max((run.project / "checkpoints").glob("*/step-*"))
    done = int(newest.name.removeprefix("step-"))
    launcher.wait_for(run.project / "checkpoints", f"step-{done // 5 * 5 + 10:08d}")
    run.process.terminate()
    return run.end()[1]


@pytest.mark.slow
@pytest.mark.parametrize("stop", ["launcher", "group"])
def test_signal_stops_two_processes_which_resume(launch, stop):
    run = launch(launch="cpus", **LONG)
    processes = run.wait_for_steps()
    run.stop(stop)
    code, lines = run.end()
    assert code == 75, lines
    assert "`dvc repro`" in lines[-1]
    assert not [line for line in lines if "Traceback" in line], "\n".join(lines)
    assert_gone(processes)
    assert [line for line in resumed_lines(launch(launch="cpus", **LONG)) if "resumes from step" in line]


@pytest.fixture
def _root(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("ACCELERATE_USE_CPU")


@pytest.mark.usefixtures("_root")
@pytest.mark.parametrize(
    ("choice", "is_distributed"),
    [
        (DeviceChoice("cpu", 1, "bf16"), False),
        (DeviceChoice("cuda", 1, "bf16"), False),
        (DeviceChoice("cuda", 4, "fp16"), True),
    ],
)
def test_auto_launches_what_was_chosen(choice, is_distributed, caplog):
    arguments = launch_arguments("stages.train", "auto", choice, [])
    assert (arguments.num_processes, arguments.mixed_precision) == (choice.processes, choice.precision)
    assert bool(arguments.multi_gpu) == is_distributed
    assert arguments.use_cpu == (choice.device == "cpu")
    assert "not passed" not in caplog.text


def environment(name):
    """Return the variables that accelerate sets for the processes of a launch on several GPUs."""
    with contextlib.chdir(ROOT):
        env = prepare_multi_gpu_env(launch_arguments("stages.train", name, None, []))
    return {key: value for key, value in env.items() if key.startswith(("ACCELERATE_", "FSDP_"))}


@pytest.mark.usefixtures("_root")
def test_sharded_launch_uses_fsdp2(monkeypatch):
    for key, value in environment("fsdp").items():
        monkeypatch.setenv(key, value)
    plugin = FullyShardedDataParallelPlugin()
    assert plugin.fsdp_version == 2
    assert plugin.reshard_after_forward is True
    assert "SHARDED" in str(plugin.state_dict_type)


@pytest.fixture
def own_launch(tmp_path, monkeypatch, _root):
    """Return the path of a launch configuration ``mine`` in a project without others."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf/accelerate").mkdir(parents=True)
    return tmp_path / "conf/accelerate/mine.yaml"


def test_file_of_accelerate_config_default_is_launched_as_it_is(own_launch, caplog):
    write_basic_config(save_location=str(own_launch))
    arguments = launch_arguments("stages.train", "mine", None, [])
    assert (arguments.num_processes, arguments.mixed_precision) == (1, "no")
    assert "not passed" not in caplog.text


def test_file_that_accelerate_refuses_is_an_error_that_names_it(own_launch):
    own_launch.write_text("distributed_type: 'NO'\ncolour: red\n")
    with pytest.raises(ParamsError, match=r"conf/accelerate/mine\.yaml: accelerate refuses it: .*colour"):
        launch_arguments("stages.train", "mine", None, [])


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(
    ("distributed_type", "launcher"),
    [("DEEPSPEED", "DeepSpeed"), ("MEGATRON_LM", "Megatron-LM"), ("XLA", "a TPU")],
)
def test_launcher_that_is_not_torchrun_is_refused(own_launch, distributed_type, launcher, processes):
    """It would train as plain DDP, with the whole model on each GPU."""
    own_launch.write_text(f"distributed_type: {distributed_type}\nnum_processes: {processes}\n")
    with pytest.raises(ParamsError, match=rf"mine\.yaml, .* {launcher}, which is not supported"):
        launch_arguments("stages.train", "mine", None, [])


def test_flag_of_another_launcher_is_refused(own_launch):
    own_launch.write_text("distributed_type: 'NO'\nnum_processes: 2\n")
    with pytest.raises(ParamsError, match="DeepSpeed, which is not supported"):
        launch_arguments("stages.train", "mine", None, ["--use_deepspeed"])


@pytest.mark.parametrize("arguments", [[], ["--machine_rank", "1"]])
def test_launch_asks_for_the_module_that_trains(tmp_path, arguments):
    command = [sys.executable, "-m", "tuneline.training.launch", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == ParamsError.stage_status
    assert "python -m tuneline.training.launch stages.train" in done.stderr
