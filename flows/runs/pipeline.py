"""The pipeline in a checkout: its files, its graph, and its stages, which DVC runs."""

import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, Literal, Self

from ruamel.yaml import YAML

from flows.runs.compose import REFUSED
from flows.runs.credentials import for_composition, for_stages
from flows.runs.deaths import KilledError, killed_by, out_of_memory_kills
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import Repository, dvc_config
from tuneline.errors import DataError
from tuneline.files import replace_directory, replace_file
from tuneline.repo import Lock, cached_folder, cached_out, git, is_intact, load_yaml, lock_at, read_lock

Outcome = Literal["ran", "skipped", "restored"]
OnLine = Callable[[str], None]

COMPOSE = Path(__file__).with_name("compose.py")
_EDGE = re.compile(r'^"([^"]+)"(?: -> "([^"]+)")?;$')
_HINT = re.compile(r"To track the changes with git|\s*git add |To enable auto staging|\s*dvc config core.autostage|Use `dvc push`")
_BUSY = ("Unable to acquire lock", "is busy, it is being blocked by")


class ArtifactError(Exception):
    """``dvc.yaml`` does not list an artifact."""


class OverridesError(Exception):
    """Parameter overrides that cannot be composed."""


@dataclass(frozen=True)
class PipelineFiles:
    """``dvc.yaml`` and ``dvc.lock`` of a checkout or a commit.

    Attributes:
        source: Folder or commit they were read from, for messages.
        definition: Content of ``dvc.yaml``.
        lock: Content of ``dvc.lock``.
    """

    source: str
    definition: Mapping[str, Any]
    lock: Lock

    @classmethod
    def of_checkout(cls, root: Path) -> Self:
        """Read the files of a working tree."""
        path = root / "dvc.yaml"
        return cls(str(root), _parse(path.read_text(encoding="utf-8") if path.exists() else ""), read_lock(root))

    @classmethod
    def of_commit(cls, repository: Repository, commit: str) -> Self:
        """Read the files of a commit."""
        return cls(commit[:12], _parse(git(repository.root, "show", f"{commit}:dvc.yaml")), lock_at(repository.root, commit))

    def artifact(self, name: str) -> str:
        """Return the path of an artifact.

        Raises:
            ArtifactError: ``dvc.yaml`` lists no artifact of that name.
        """
        artifacts = self.definition.get("artifacts", {})
        if name not in artifacts:
            raise ArtifactError(f"dvc.yaml of {self.source} has no artifact {name!r}; promotion.artifact in conf/flows.yaml names it.")
        return str(artifacts[name]["path"])


def _parse(text: str) -> dict[str, Any]:
    return dict(load_yaml(text) or {})


@dataclass(frozen=True)
class Graph:
    """What ``dvc.yaml`` lists.

    Attributes:
        stages: Stage names, each after those it depends on.
        sources: ``.dvc`` files: data that no stage makes.
    """

    stages: tuple[str, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Pipeline:
    """The pipeline in one checkout.

    Attributes:
        programs: Runs commands in the checkout.
        on_line: Called with each line that a command prints.
        lock_wait: Seconds to wait for DVC's lock.
    """

    programs: Programs
    on_line: OnLine
    lock_wait: float = 600

    def compose(self, overrides: Sequence[str]) -> None:
        """Write ``params.yaml`` as ``dvc exp run -S ...`` does: composed by Hydra from ``conf/`` if that is enabled.

        Args:
            overrides: As after ``-S``: ``task=mrpc``, ``train.learning_rate=1e-3``.

        Raises:
            OverridesError: An override is refused, by Hydra or by ``flows/runs/compose.py``; the message says why.
        """
        command = [sys.executable, "-P", str(COMPOSE), json.dumps([*overrides])]
        try:
            self.programs.run(command, "Composing params.yaml", lambda _line: None, env=for_composition(self.programs.env))
        except ProgramError as error:
            if error.code != REFUSED:
                raise
            raise OverridesError("\n".join([f"Parameters {' '.join(overrides)}:", *error.last])) from None

    def dvc(
        self, *arguments: str, what: str, on_line: OnLine | None = None, keep: int = 20, env: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        """Run DVC, waiting while another process holds its lock: DVC itself gives up after three seconds.

        Raises:
            ProgramError: DVC failed, or the lock was held for longer than ``lock_wait``.
        """
        until = time.monotonic() + self.lock_wait
        while True:
            try:
                return self.programs.run(["dvc", *arguments], what, on_line or self.on_line, keep, env)
            except ProgramError as error:
                if not any(sign in line for line in error.last for sign in _BUSY) or time.monotonic() > until:
                    raise
            self.on_line("Another process holds DVC's lock; waiting for it.")
            time.sleep(2)

    def get(self, repository: Repository, path: str, commit: str, out: Path, what: str) -> None:
        """Write a file or folder that DVC has for a commit to ``out``, from the cache or the default remote.

        Raises:
            ProgramError: It is in neither.
            DataError: The file in the cache is damaged.
        """
        if self._copy_cached(repository, path, commit, out, what):  # DVC takes a second, and copies a damaged file
            return
        remote = dvc_config(repository.root).get("core", {}).get("remote")
        named = ("--remote", remote) if remote else ()  # of a commit, DVC reads only the committed settings: not those of a worker
        try:
            self.dvc("get", str(repository.root), path, "--rev", commit, "--out", str(out), "--force", *named, what=what)
        except ProgramError as error:
            hint = "If only another machine has it, publish it there: python -m flows.promotion.publication"
            raise ProgramError(what, error.code, (*error.last, hint)) from None

    @staticmethod
    def _copy_cached(repository: Repository, path: str, commit: str, out: Path, what: str) -> bool:
        """Copy a file or folder from the cache; return False if the cache does not have all of it."""
        lock = lock_at(repository.root, commit)
        folder = cached_folder(repository.root, lock, path)
        files = {"": cached_out(repository.root, lock, path)} if folder is None else folder
        cached = {name: file for name, file in files.items() if file is not None}
        for file in cached.values():
            if not is_intact(file):
                raise DataError(f"{what}: DVC's cache is damaged.", f"`rm {file}`: DVC then takes the file from the remote.")
        if len(cached) < len(files):
            return False
        with replace_file(out) if folder is None else replace_directory(out) as partial:
            for name, file in cached.items():
                target = partial / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
        return True

    def graph(self) -> Graph:
        """Read the graph from the checkout's own ``dvc.yaml``.

        Raises:
            ProgramError: ``dvc.yaml`` cannot be read.
        """
        printed = self.dvc("dag", "--dot", what="Reading dvc.yaml", on_line=lambda _line: None, keep=100_000)
        edges: dict[str, set[str]] = {}
        for match in filter(None, map(_EDGE.match, printed)):
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
        """Restore what the cache has for this commit; fetch missing sources from the DVC remote.

        Raises:
            ProgramError: A source is neither in the cache nor in a remote.
        """
        self.dvc("checkout", "--quiet", "--allow-missing", what="Restoring what the cache has")
        if missing := [source for source in sources if not self._has_outs(source)]:
            self.dvc("pull", *missing, what=f"Fetching {', '.join(missing)} from the DVC remote")

    def _has_outs(self, source: str) -> bool:
        path = self.programs.cwd / source
        outs = YAML(typ="safe", pure=True).load(path).get("outs", [])
        return all((path.parent / out["path"]).exists() for out in outs)

    def reproduce(self, stage: str) -> Outcome:
        """Run one stage, unless DVC finds its inputs unchanged.

        Raises:
            ProgramError: The stage failed; the message ends with the last lines it printed.
            KilledError: The system killed it.
        """
        outcome: Outcome = "ran"
        kills = out_of_memory_kills()

        def listen(line: str) -> None:
            nonlocal outcome
            if line == f"Stage '{stage}' didn't change, skipping":
                outcome = "skipped"
            elif line.startswith(f"Stage '{stage}' is cached - skipping run"):
                outcome = "restored"
            if not _HINT.match(line):  # meant for a person at a terminal
                self.on_line(line)

        try:
            self.dvc("repro", "--single-item", stage, what=f"Stage {stage!r}", on_line=listen, env=for_stages(self.programs.env))
        except ProgramError as error:
            if number := killed_by(error):
                raise KilledError(number, error, kills) from None
            raise
        return outcome
