"""Runs started as DVC starts them: the choice of the device, what is printed last, exit codes, and no process
that is left behind."""

import json
import signal

import pytest

from stages.train.launch import CRASHED, describe_end
from tests.stages.train import launcher
from tests.stages.train.launched import LONG, Launch, assert_gone, launches, note


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        (0, 0, None),
        (CRASHED, 1, "unexpected error; the traceback is above. HINT"),
        (
            128 + signal.SIGKILL,
            137,
            "killed. The system kills a process when memory runs out",
        ),
        (128 + signal.SIGTERM, 75, "stopped. HINT"),
        (3, 3, "ended with exit code 3. HINT"),
    ],
)
def test_last_line_says_how_the_training_ended(code, status, words):
    message, exit_status = describe_end(code, "HINT")
    assert exit_status == status
    assert (message is None) == (words is None)
    assert words is None or words in message


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
    """`kill` reaches the launcher alone; Ctrl-C reaches all processes of the terminal."""
    run = launch(**LONG)
    processes = run.wait_for_steps()
    run.stop(stop)
    code, lines = run.end()
    assert code == 75, lines
    assert "interrupted by SIG" in lines[-1]
    assert lines[-1].endswith("Run `dvc repro` to resume from it.")
    assert note(run.project)["resumable"]
    assert_gone(processes)


@pytest.mark.slow
def test_killed_training_is_explained(launch):
    """The system kills the process with the most memory, which is not the launcher."""
    run = launch(**LONG)
    run.wait_for_steps(2)[0].kill()
    code, lines = run.end()
    assert code == 137
    assert lines[-1].startswith("train: killed. The system kills a process when memory runs out")
    assert (
        "`dvc repro` resumes from step 10 (checkpoints/" in lines[-1] or "resumes from step 15" in lines[-1]
    )
    assert not [line for line in lines if "Traceback" in line], "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["auto", "cpus"])
def test_error_of_the_training_is_printed_once_and_last(launch, name):
    code, lines = launch(launch=name, class_weights={"purple": 2.0}).end()
    assert code == 78
    assert [
        line for line in lines if line.startswith("train: train.class_weights: 'purple' is not a class.")
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
    done = int(str(note(run.project)["step"]))
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
