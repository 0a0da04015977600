"""What a worker of Ray does with a task."""

import functools
import importlib.metadata
import pickle
import platform
import traceback
from dataclasses import dataclass

from tuneline.errors import StageError
from tuneline.records.provenance import CODE, ROOT, code_hash

LIBRARIES = ("numpy", "onnxruntime", "pyarrow", "tokenizers", "torch", "transformers")
"""Libraries that the bytes of the results depend on."""

ATTEMPTS = 4
"""How often a task is run whose worker is killed. Ray would run one that needs more memory than there is for ever."""


@dataclass(frozen=True)
class Failure:
    """A task that ended with an error, instead of its result."""

    error: Exception


@functools.cache
def versions() -> dict[str, str]:
    """Return what results depend on besides their tasks: the versions of Python and the libraries, and the hash of the code."""
    libraries = {name: importlib.metadata.version(name).partition("+")[0] for name in LIBRARIES}
    code = code_hash(ROOT, [name for name in CODE if (ROOT / name).exists()])
    return {"Python": platform.python_version().rpartition(".")[0], **libraries, "the project's code": code[:12]}


def run_task(task: bytes, expected: dict[str, str], attempt: int) -> tuple[str | None, bytes | None]:
    """Run a task, unless this worker would give another result than the process that sent it.

    Args:
        task: Pickled function and argument.
        expected: Versions of the process that sent it.
        attempt: 1, or more if its worker was killed.

    Returns:
        The reason not to run it, or the pickled result, which is a ``Failure`` after an error.
    """
    here = versions()
    if other := [f"{name} is {here.get(name)} there and {value} here" for name, value in expected.items() if here.get(name) != value]:
        return "; ".join(other), None
    function, argument = pickle.loads(task)  # noqa: S301 - sent by the process that started this work
    if attempt > ATTEMPTS:
        problem = f"{argument}: the worker of Ray was killed {ATTEMPTS} times in this task."
        return None, pickle.dumps(Failure(StageError(problem, "If its memory is too small: set run.workers or data.shard_rows lower.")))
    try:
        return None, pickle.dumps(function(argument))
    except StageError as error:
        return None, pickle.dumps(Failure(error))
    except Exception as error:
        return None, pickle.dumps(Failure(_portable(error)))


def _portable(error: Exception) -> Exception:
    """Return an unexpected error as it can be sent, with the traceback of the worker."""
    trace = traceback.format_exc()
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(f"On the Ray worker of {platform.node()}:\n{trace}")
    return error
