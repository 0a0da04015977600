"""Real processes, real signals. What a run starts never outlives it."""

import contextlib
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from pathlib import Path

import psutil
import pytest

from tuneline.core.repository.programs import RUN_VARIABLE, ProgramError, Programs, stage_environment
from tuneline.core.runtime.files import BusyError, locked

TRAINING = """
import pathlib, signal, sys, time
def save(*_):
    time.sleep(0.3)
    pathlib.Path("checkpoint").write_text("saved")
    print("checkpoint saved", flush=True)
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
print("training", flush=True)
pathlib.Path("started").touch()
while True:
    time.sleep(0.05)
"""
LAUNCHER = """
import subprocess, sys
sys.exit(subprocess.Popen([sys.executable, "training.py"], start_new_session=True).wait())
"""


@pytest.fixture
def place(tmp_path) -> Path:
    (tmp_path / "training.py").write_text(TRAINING)
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    return tmp_path


@pytest.fixture
def mark() -> str:
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def programs(place, mark) -> Programs:
    return Programs(place, mark)


def alive(mark: str) -> list[str]:
    """Command lines of what carries the mark."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(RUN_VARIABLE) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
    return found


def until(condition, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


class Cancelled(BaseException):
    """As Prefect raises it."""


def cancel_when(file: Path):
    """A line handler that raises as a cancellation would, once training has begun."""

    def on_line(line: str) -> None:
        if line == "training":
            raise Cancelled

    return on_line


def test_output_arrives_line_by_line_while_the_program_runs(programs):
    seen = []
    script = "import time; print('one', flush=True); time.sleep(0.5); print('two')"
    programs.run(
        [sys.executable, "-c", script], "A script", lambda line: seen.append((line, time.monotonic()))
    )
    assert [line for line, _ in seen] == ["one", "two"]
    assert seen[1][1] - seen[0][1] > 0.3


def test_escape_sequences_in_output_are_removed_or_shown_as_codes(programs):
    seen = []
    script = r"printf '\033[31mred\033[0m \033]0;title\007 \302\233 \342\200\256\n'; exit 3"
    with pytest.raises(ProgramError) as failed:
        programs.run(["sh", "-c", script], "Scoring \x1b[2J.csv", seen.append)
    assert seen == [r"red \x1b]0;title\x07 \x9b \u202e"]
    assert str(failed.value) == "\n".join([r"Scoring \x1b[2J.csv ended with exit code 3.", *seen])


def test_arguments_are_not_interpreted_by_a_shell(programs):
    assert programs.run(["echo", "$(id); `id`"], "Echo", lambda _line: None) == ("$(id); `id`",)


def test_programs_do_not_see_prefects_variables(place, mark, monkeypatch):
    monkeypatch.setenv("PREFECT_API_KEY", "secret")
    monkeypatch.setenv("PYTHONPATH", "/flows")
    assert not {"PREFECT_API_KEY", "PYTHONPATH"} & set(stage_environment())


def test_cancelled_training_in_its_own_session_saves_a_checkpoint(programs, place, mark):
    started = time.monotonic()
    with pytest.raises(Cancelled):
        programs.run([sys.executable, "launcher.py"], "Training", cancel_when(place / "started"))
    assert time.monotonic() - started < 10
    assert (place / "checkpoint").read_text() == "saved"
    assert alive(mark) == []


def test_background_processes_end_with_their_program(programs, mark):
    programs.run(["sh", "-c", "setsid sleep 600 & sleep 600 & echo done"], "A script", lambda _line: None)
    assert [line for line in alive(mark) if "sleep" in line] == []


@pytest.mark.parametrize("how", [signal.SIGKILL])
def test_killed_flow_ends_its_training(place, mark, how, root):
    """SIGKILL leaves the flow no say: the supervisor, which survives it, ends what it has started."""
    flow = f"""
        import sys
        sys.path.insert(0, {str(root)!r})
        from pathlib import Path
        from tuneline.core.repository.programs import Programs
        programs = Programs(Path("."), {mark!r})
        programs.run([sys.executable, "launcher.py"], "Training", print)
    """
    flow_process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(flow)], cwd=place, stdout=subprocess.DEVNULL
    )
    until((place / "started").exists)
    flow_process.send_signal(how)
    flow_process.wait()
    until(lambda: not alive(mark))
    assert (place / "checkpoint").read_text() == "saved", "it was asked, not just killed"


def test_killed_supervisor_leaves_no_process(programs, mark):
    def kill_supervisor(_line: str) -> None:
        (supervisor,) = [
            process for process in psutil.Process().children() if process.environ().get(RUN_VARIABLE) == mark
        ]
        supervisor.kill()

    with pytest.raises(ProgramError, match="was ended by SIGKILL"):
        programs.run(["sh", "-c", "echo hello; sleep 600"], "A script", kill_supervisor)
    until(lambda: not alive(mark))


def test_program_that_ignores_sigterm_is_killed(place, mark, monkeypatch):
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('training', flush=True);"
        " time.sleep(600)"
    )
    monkeypatch.setenv("TUNELINE_GRACE", "1")
    programs = Programs(place, mark)
    with pytest.raises(Cancelled):
        programs.run([sys.executable, "-c", deaf], "Training", cancel_when(place / "started"))
    assert alive(mark) == []


def test_run_lock_is_held_until_the_last_process_has_ended(place, mark, root):
    """Else the next attempt would begin while this one still writes its checkpoint."""
    flow = f"""
        import sys
        sys.path.insert(0, {str(root)!r})
        from pathlib import Path
        from tuneline.core.runtime.files import locked
        from tuneline.core.repository.programs import Programs
        with locked(Path("run.lock"), wait=0) as lock:
            programs = Programs(Path("."), {mark!r}, locks=[lock])
            programs.run([sys.executable, "training.py"], "Training", print)
    """
    flow_process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(flow)], cwd=place, stdout=subprocess.DEVNULL
    )
    until((place / "started").exists)
    flow_process.kill()
    flow_process.wait()
    with pytest.raises(BusyError), locked(place / "run.lock", wait=0):
        pass
    with locked(place / "run.lock", wait=20):
        assert (place / "checkpoint").exists()
