"""The line as the flows know it: through ``dvc``, in a checkout."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, Literal

from ruamel.yaml import YAML

from flows.runs.processes import ProgramError, Programs

Outcome = Literal["ran", "skipped", "restored"]
OnLine = Callable[[str], None]

_NODE = re.compile(r'^"([^"]+)"(?: -> "([^"]+)")?;$')
_ADVICE = re.compile(r"To track the changes with git|\s*git add |To enable auto staging|\s*dvc config core.autostage|Use `dvc push`")
_BUSY = ("Unable to acquire lock", "is busy, it is being blocked by")


class OverridesError(Exception):
    """Parameter overrides that cannot be composed."""


@dataclass(frozen=True)
class Graph:
    """What ``dvc.yaml`` holds.

    Attributes:
        stages: In an order in which they can run.
        sources: ``.dvc`` files: data that came from outside.
    """

    stages: tuple[str, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Line:
    """The line in one checkout.

    Attributes:
        programs: Runs the commands there.
        on_line: Gets each line that is printed.
        lock_wait: Seconds to wait for DVC's lock.
    """

    programs: Programs
    on_line: OnLine
    lock_wait: float = 600

    def dvc(self, *arguments: str, what: str, on_line: OnLine | None = None, keep: int = 20) -> tuple[str, ...]:
        """Runs DVC, waiting for its lock where someone else holds it: DVC itself gives up after three seconds.

        Raises:
            ProgramError: DVC failed, or the lock was held for longer than ``lock_wait``.
        """
        until = time.monotonic() + self.lock_wait
        while True:
            try:
                return self.programs.run(["dvc", *arguments], what, on_line or self.on_line, keep)
            except ProgramError as error:
                if not any(sign in line for line in error.last for sign in _BUSY) or time.monotonic() > until:
                    raise
            self.on_line("Another process holds DVC's lock; waiting for it.")
            time.sleep(2)

    def graph(self) -> Graph:
        """Reads the graph from the checkout's own ``dvc.yaml``.

        Raises:
            ProgramError: ``dvc.yaml`` cannot be read.
        """
        printed = self.dvc("dag", "--dot", what="Reading dvc.yaml", on_line=lambda _line: None, keep=100_000)
        edges: dict[str, set[str]] = {}
        for match in filter(None, map(_NODE.match, printed)):
            before, after = match.groups()
            edges.setdefault(before, set())
            if after is not None:
                edges.setdefault(after, set()).add(before)
        order = tuple(TopologicalSorter(edges).static_order())
        return Graph(
            stages=tuple(name for name in order if not name.endswith(".dvc")),
            sources=tuple(name for name in order if name.endswith(".dvc")),
        )

    def restore(self, sources: Sequence[str]) -> None:
        """Brings back what the cache has for this commit, and data from outside from the DVC remote where it must.

        Raises:
            ProgramError: Data from outside is neither in the cache nor in a remote.
        """
        self.dvc("checkout", "--quiet", "--allow-missing", what="Restoring what the cache has")
        if missing := [source for source in sources if not self._has_outs(source)]:
            self.dvc("pull", *missing, what=f"Fetching {', '.join(missing)} from the DVC remote")

    def _has_outs(self, source: str) -> bool:
        place = self.programs.cwd / source
        outs = YAML(typ="safe", pure=True).load(place).get("outs", [])
        return all((place.parent / out["path"]).exists() for out in outs)

    def reproduce(self, stage: str) -> Outcome:
        """Runs one stage, unless DVC finds that it need not run.

        Raises:
            ProgramError: The stage failed; the message ends with the last lines it printed.
        """
        outcome: Outcome = "ran"

        def listen(line: str) -> None:
            nonlocal outcome
            if line == f"Stage '{stage}' didn't change, skipping":
                outcome = "skipped"
            elif line.startswith(f"Stage '{stage}' is cached - skipping run"):
                outcome = "restored"
            if not _ADVICE.match(line):  # meant for a person at a terminal
                self.on_line(line)

        self.dvc("repro", "--single-item", stage, what=f"Stage {stage!r}", on_line=listen)
        return outcome


def compose(root: Path, config: dict[str, Any], overrides: Sequence[str]) -> None:
    """Writes ``params.yaml`` as ``dvc exp run -S ...`` would: composed by Hydra from ``conf/`` where that is on.

    Args:
        root: The checkout.
        config: DVC's settings there.
        overrides: As after ``-S``: ``task=mrpc``, ``train.learning_rate=1e-3``.

    Raises:
        OverridesError: Hydra does not know what to do with one of them; the message is Hydra's.
    """
    from dvc.utils.hydra import apply_overrides, compose_and_dump  # as long to import as all the rest
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    hydra, params = config.get("hydra", {}), root / "params.yaml"
    try:
        if hydra.get("enabled", False):
            folder, plugins = root / hydra.get("config_dir", "conf"), root / hydra.get("plugins_path", "")
            compose_and_dump(params, str(folder), None, hydra.get("config_name", "config"), str(plugins), list(overrides))
        else:
            apply_overrides(params, list(overrides))
    except (HydraException, OmegaConfBaseException) as error:
        raise OverridesError(f"Parameters {' '.join(overrides)}: {error}") from None
