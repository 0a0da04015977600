"""Results that are committed in this clone while ``origin`` does not have them yet, or has not decided about them.

A run records its result before it asks ``origin`` anything, and removes the record when ``origin`` has the result. What is left, because
a git host or the DVC remote was away, or the process was killed, is completed by the next run (``flows/promotion/finish.py``).
"""

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from flows.runs.checkout import Checkout
from flows.runs.repository import Repository
from flows.runs.results import Result, Run, earlier_result
from flows.runs.spec import RunSpec
from tuneline.files import write_json


@dataclass(frozen=True)
class Unpushed:
    """A recorded result.

    Attributes:
        run: The Prefect run that made it; its branch is found by the run's id.
        checkout: Name of the run's checkout.
        spec: What the run computed.
        tree: Git tree of the result.
        promote: True if the result is to be judged.
    """

    run: Run
    checkout: str
    spec: RunSpec
    tree: str
    promote: bool


_FILE = TypeAdapter(Unpushed)


def record(repository: Repository, checkout: Checkout, run: Run, tree: str, *, promote: bool) -> None:
    """Record the result of a run, in place of one of an earlier attempt."""
    write_json(_file(repository, checkout.name), _FILE.dump_python(Unpushed(run, checkout.name, checkout.spec, tree, promote), mode="json"))


def forget(repository: Repository, checkout: str) -> None:
    """Remove the record of a result, if there is one."""
    _file(repository, checkout).unlink(missing_ok=True)


def recorded(repository: Repository) -> list[Unpushed]:
    """Return the recorded results, the oldest first. A file that cannot be read is removed: its result is on its branch all the same."""
    found = []
    for file in sorted(repository.state.glob("*.unpushed"), key=lambda path: path.stat().st_mtime):
        try:
            found.append(_FILE.validate_json(file.read_bytes()))
        except ValidationError:
            repository.log(f"{file} is damaged. What it recorded is on a branch runs/*, and is not pushed.")
            file.unlink()
    return found


def committed(repository: Repository, one: Unpushed) -> Result | None:
    """Return the commit of a recorded result; ``None`` if a person removed its branch."""
    if result := earlier_result(repository, one.run.id):
        return result
    unchanged = repository.git("rev-parse", f"{one.spec.commit}^{{tree}}") == one.tree
    return Result(one.spec.commit, None) if unchanged else None


def age_in_days(repository: Repository, one: Unpushed, now: float) -> float:
    """Return the time since a result was recorded first."""
    return (now - _file(repository, one.checkout).stat().st_mtime) / 86400


def _file(repository: Repository, checkout: str) -> Path:
    return repository.state / f"{checkout}.unpushed"
