"""Results that are committed in this clone while ``origin`` lacks them, or has not decided about them.

Each is recorded in ``CHECKOUT.unpushed`` in the repository's folder of states, and the next run completes it.
"""

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from flows.runs.checkout import RunSpec
from flows.runs.commits import Run, RunResult, earlier_result
from flows.runs.repository import Repository
from tuneline.runtime.atomic_files import write_json

SECONDS_PER_DAY = 86400


@dataclass(frozen=True)
class UnpushedResult:
    """A result that is not in ``origin`` yet, or that is not decided.

    Attributes:
        run: The run, whose id names the branch of the result.
        checkout: Name of the run's checkout, and of the record.
        spec: What was run.
        tree: Git tree of the result.
        promote: True if the result's model is to be promoted if it is better.
    """

    run: Run
    checkout: str
    spec: RunSpec
    tree: str
    promote: bool

    def record(self, repository: Repository) -> None:
        """Record the result, in place of the result of an earlier attempt."""
        write_json(_unpushed_file(repository, self.checkout), _UNPUSHED.dump_python(self, mode="json"))

    def committed(self, repository: Repository) -> RunResult | None:
        """Return the commit of the result; ``None`` if a person removed its branch."""
        result = earlier_result(repository, self.run.id)
        if result:
            return result

        # A run that changes nothing makes no commit: its result is the commit that was run.
        tree = repository.git("rev-parse", f"{self.spec.commit}^{{tree}}")
        if tree == self.tree:
            return RunResult(self.spec.commit, None)
        return None

    def age_in_days(self, repository: Repository, now: float) -> float:
        """Return the time since the result was recorded; ``now`` is a Unix time."""
        recorded = _unpushed_file(repository, self.checkout).stat().st_mtime
        return (now - recorded) / SECONDS_PER_DAY


_UNPUSHED = TypeAdapter(UnpushedResult)


def _unpushed_file(repository: Repository, checkout: str) -> Path:
    return repository.state / f"{checkout}.unpushed"


def unpushed_results(repository: Repository) -> list[UnpushedResult]:
    """Return the recorded results, the oldest first.

    A file that cannot be read is removed: its result is on its branch all the same.
    """
    results = []
    for file in sorted(repository.state.glob("*.unpushed"), key=lambda path: path.stat().st_mtime):
        try:
            results.append(_UNPUSHED.validate_json(file.read_bytes()))
        except ValidationError:
            repository.log(f"{file} is damaged. What it recorded is on a branch runs/*, and is not pushed.")
            file.unlink()
    return results


def forget_unpushed(repository: Repository, checkout: str) -> None:
    """Remove the record of a result, if there is one."""
    _unpushed_file(repository, checkout).unlink(missing_ok=True)
