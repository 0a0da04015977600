"""Stages that a signal kills, in a pipeline that DVC runs."""

import signal

import pytest
from prefect.logging import disable_run_logger

from flows.runs import deaths
from flows.runs.deaths import KilledError, cause, killed_by, out_of_memory_kills
from flows.runs.processes import ProgramError
from flows.runs.tasks import stage_task
from flows.settings.stages import StagePolicy


@pytest.fixture
def stage(toy, pipeline):
    """Return a function that gives the first stage another command, and runs its task as the flow does."""

    def run(command: str, **policy):
        file = toy.root / "dvc.yaml"
        file.write_text(file.read_text().replace("cmd: python toy.py download", f"cmd: {command}; echo x >> began; python toy.py download"))
        with disable_run_logger():
            return stage_task("download", StagePolicy(**policy)).fn(pipeline)

    return run


def test_killed_stage_is_started_again(stage):
    state = stage("test -e began || { touch began; kill -SEGV $$; }")
    assert state.message == "Killed by SIGSEGV, then started again."


def test_stage_that_is_always_killed_fails_with_its_signal(stage, toy):
    with pytest.raises(KilledError, match=r"^Stage 'download' was ended by SIGABRT\.\n(?s:.*)exited with -6"):
        stage("echo x >> began; kill -ABRT $$", retries_after_signal=1)
    assert (toy.root / "began").read_text().split() == ["x"] * 2


@pytest.mark.parametrize("command", ["echo x >> began; exit 1", "echo x >> began; kill -TERM $$"])
def test_stage_that_failed_or_was_stopped_is_not_started_again(stage, toy, command):
    with pytest.raises(ProgramError) as failed:
        stage(command)
    assert not isinstance(failed.value, KilledError)
    assert (toy.root / "began").read_text().split() == ["x"]


@pytest.mark.parametrize(
    ("code", "number"), [(-9, 9), (137, 9), (-6, 6), (134, 6), (139, 11), (1, None), (75, None), (-15, None), (143, None)]
)
def test_signal_of_a_stage_is_that_of_its_command(code, number):
    line = f"ERROR: failed to reproduce 'train': failed to run: python -m stages.train.launch, exited with {code}"
    assert killed_by(ProgramError("Stage 'train'", 255, [line])) == number


def test_signal_of_dvc_itself_counts_as_well():
    assert killed_by(ProgramError("Stage 'train'", -9, ["train: step 7"])) == signal.SIGKILL


def test_cause_of_sigkill_is_what_the_kernel_counts(tmp_path, monkeypatch):
    assert "out-of-memory killer was at work" in cause(signal.SIGKILL, 3, 4)
    assert "a person" in cause(signal.SIGKILL, 3, 3)
    assert "Usually" in cause(signal.SIGKILL, None, 3)
    assert cause(signal.SIGSEGV, 3, 4) is None
    monkeypatch.setattr(deaths, "KERNEL_COUNTERS", tmp_path / "vmstat")
    assert out_of_memory_kills() is None
    (tmp_path / "vmstat").write_text("pgfault 7\noom_kill 2\n")
    assert out_of_memory_kills() == 2
