import pickle

from tests.tuneline.engines import tasks
from tuneline.engines.ray_tasks import ATTEMPTS, Failure, run_task, versions
from tuneline.runtime.errors import DataError


class Unpicklable(Exception):
    """An error with arguments that its class does not take again."""

    def __init__(self, path, reason):
        super().__init__(f"{path}: {reason}")


def break_down(path):
    raise Unpicklable(path, "broken")


def outcome(function, task, attempt=1):
    """Return what reaches the sender of a task."""
    reason, result = run_task(pickle.dumps((function, task)), versions(), attempt)
    assert reason is None
    return pickle.loads(result)  # noqa: S301 - our own


def test_worker_with_other_versions_gives_the_reason_and_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    expected = {**versions(), "pyarrow": "1.0", "the project's code": "of yesterday"}
    reason, result = run_task(pickle.dumps((tasks.write_square, 4)), expected, attempt=1)
    assert reason.startswith(f"pyarrow is {versions()['pyarrow']} there and 1.0 here; the project's code is ")
    assert (result, list(tmp_path.iterdir())) == (None, [])


def test_error_reaches_the_sender_with_its_hint_or_traceback():
    failure = outcome(tasks.fail, 1)
    assert isinstance(failure, Failure)
    assert (type(failure.error), failure.error.problem, failure.error.hint) == (
        DataError,
        "shard 1 is damaged",
        "Write it anew.",
    )
    error = outcome(break_down, "a.parquet").error
    assert str(error) == "Unpicklable: a.parquet: broken"
    assert "in break_down" in error.__notes__[0]


def test_task_whose_workers_are_killed_is_given_up():
    assert "1: the worker of Ray was killed 4 times" in str(
        outcome(tasks.kill_every_worker, 1, ATTEMPTS + 1).error
    )
