"""Checkpoints in storage that all machines reach: a run whose machine is lost resumes on another one.

While a training runs, each checkpoint that it completes is copied: ``STORAGE/RUN/KEY/step-N/``, as in the
repository's ``checkpoints/``, with the marker last. An attempt on a machine that has none or only older ones
fetches them; the training verifies them before it uses them. What cannot be copied never stops a training.
"""

import contextlib
import contextvars
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import fsspec

from flows.runs.checkout import SPEC, Checkout, RunSpec
from flows.runs.repository import Repository
from tuneline.paths import CHECKPOINTS
from tuneline.readers.files import redacted
from tuneline.repository.dvc import dvc_config, require_remote
from tuneline.runtime.atomic_files import replace_directory

DVC = "dvc"
"""Value of the setting that stands for the default DVC remote."""
MARKER = "complete.json"
"""File that completes a checkpoint (``stages/train/checkpoints.py``)."""
COPY_EVERY = 5.0
"""Seconds between two looks for new checkpoints."""
FETCH_AFTER = (0, 10, 60)
"""Seconds before each attempt to fetch checkpoints.

To train again from the start costs more than to wait for a network.
"""
KEPT = timedelta(days=30)
"""Time after which the checkpoints of a run that never succeeded are removed."""
_RECORD = "run.json"
_FILE = re.compile(r"(?P<step>[\w-]+/step-\d+)/(?P<rest>[^/].*)")


class StorageError(Exception):
    """``training.checkpoints`` in ``conf/flows.yaml`` names no storage that can be used."""


@dataclass
class SharedCheckpoints:
    """The copies of one run's checkpoints in a storage.

    Attributes:
        files: File system of the storage.
        root: Folder of all runs in the storage.
        local: The repository's own checkpoints.
        name: Name of the run.
        spec: What the run computes.
        warn: Function that gets the errors of the storage.
    """

    files: fsspec.AbstractFileSystem
    root: str
    local: Path
    name: str
    spec: RunSpec
    warn: Callable[[str], None]
    _fetched: str | None = None
    _copied: frozenset[str] = frozenset()
    _warned: set[str] = field(default_factory=set)

    @classmethod
    def open(
        cls, repository: Repository, where: str | None, checkout: Checkout, warn: Callable[[str], None]
    ) -> Self | None:
        """Return the checkpoints of a run in the storage that the settings name; ``None`` without one."""
        if where is None:
            return None
        files, root = open_storage(repository.root, where)
        return cls(files, root, repository.root / CHECKPOINTS, checkout.name, checkout.spec, warn)

    def fetch(self) -> str | None:
        """Fetch the checkpoints of an earlier attempt, or of a run that trains the same model.

        They are fetched only if they are newer than those that are here.

        Returns:
            The newest of them, for the log; ``None`` if nothing was fetched.
        """
        for seconds in FETCH_AFTER:
            time.sleep(seconds)
            with self._tried("Earlier checkpoints could not be fetched"):
                return self._fetch_newer()
        return None

    @contextlib.contextmanager
    def copied(self) -> Iterator[None]:
        """Copy each checkpoint that is completed in the block.

        After an error, what is not copied yet stays here only.
        """
        stop = threading.Event()
        started = time.time()

        def copy() -> None:
            while not stop.wait(COPY_EVERY):
                with self._tried("The last checkpoint was not copied"):
                    self.copy(started)

        in_context = contextvars.copy_context().run  # Prefect's logger reads its settings from there
        thread = threading.Thread(target=in_context, args=(copy,), name="copy checkpoints", daemon=True)
        thread.start()
        try:
            yield
        except BaseException:
            stop.set()
            raise
        stop.set()
        thread.join()

    def copy(self, started: float) -> None:
        """Copy the checkpoints that the storage lacks, and then remove what the training has removed.

        The training has begun, or resumed, since ``started``: checkpoints of others are not its own.
        """
        steps = {}
        for path in _complete(self.local):
            # one second: file systems and the clock differ in resolution
            if (path.parent / _RECORD).stat().st_mtime >= started - 1:
                steps[f"{path.parent.name}/{path.name}"] = path

        # Without steps, the training has ended, and the run has not: nothing is removed.
        if not steps or steps.keys() == self._copied:
            return

        stored = self._stored(self.name)
        for step, path in steps.items():  # oldest first: the best one before later ones, which need it
            if MARKER not in stored.get(step, ()):
                self._copy(step, path)
        for step in stored.keys() - steps.keys():
            self.files.rm(f"{self.root}/{self.name}/{step}", recursive=True)
        self._copied = frozenset(steps)

    def remove(self) -> None:
        """Remove the copies of a run that succeeded, and the copies that it started from."""
        with self._tried("The copies of this run's checkpoints were not removed"):
            self._remove(self.name)
            if self._fetched:
                self._remove(self._fetched)

    def _fetch_newer(self) -> str | None:
        """Fetch the checkpoints of the first candidate with a newer one; return which, for the log."""
        for run in self._candidates():
            steps = {step: files for step, files in self._stored(run).items() if MARKER in files}
            newest = max((step.partition("/")[2] for step in steps), default="")  # of any KEY/step-N
            keys = {step.partition("/")[0] for step in steps}
            here = [path.name for path in _complete(self.local) if path.parent.name in keys]
            if newest > max(here, default=""):
                self._fetched = run
                for step in sorted(steps):
                    self._fetch(run, step, steps[step], self.local / step)
                return f"{newest} of run {run}"
        return None

    def _candidates(self) -> list[str]:
        """List the runs that train the same model: this one first, then the latest.

        Runs that ended long ago are removed.
        """
        # names of the runs in the storage
        self.files.invalidate_cache()
        runs: list[str] = []
        with contextlib.suppress(FileNotFoundError):  # there is no folder yet
            for path in self.files.ls(self.root, detail=False):
                runs.append(path.rstrip("/").rpartition("/")[2])

        # runs that train the same model
        candidates = []
        damaged = (FileNotFoundError, ValueError, KeyError, TypeError)  # or removed meanwhile
        for run in runs:
            with contextlib.suppress(*damaged):
                record = json.loads(self.files.cat_file(f"{self.root}/{run}/{_RECORD}"))
                age = datetime.now(UTC) - datetime.fromisoformat(record["copied"])
                is_own = run == self.name
                if is_own or (age < KEPT and self.spec.trains_same_model(SPEC.validate_python(record))):
                    candidates.append((not is_own, age, run))  # sorted: this run, then the youngest
                elif age > KEPT:
                    self._remove(run)
        return [run for *_, run in sorted(candidates)]

    def _stored(self, run: str) -> dict[str, list[str]]:
        """Return the files of each checkpoint in the storage, complete or not.

        An example: ``{"KEY/step-N": ["model.safetensors", ...]}``.
        """
        # Other machines write there: a listing from before does not count.
        folder = f"{self.root}/{run}"
        self.files.invalidate_cache()
        steps: dict[str, list[str]] = {}
        for path in self.files.find(folder):
            match = _FILE.fullmatch(path.partition(f"{folder}/")[2])
            if match and ".." not in match["rest"].split("/"):
                steps.setdefault(match["step"], []).append(match["rest"])
        return steps

    def _copy(self, step: str, path: Path) -> None:
        target = f"{self.root}/{self.name}"
        names = []
        for file in path.rglob("*"):
            if file.is_file():
                names.append(file.relative_to(path).as_posix())
        names.sort(key=lambda name: name == MARKER)  # the marker last: only then is the copy complete
        try:
            for name in names:
                self.files.makedirs(f"{target}/{step}/{name}".rpartition("/")[0], exist_ok=True)
                self.files.put_file(str(path / name), f"{target}/{step}/{name}")
        except FileNotFoundError:
            if path.exists():
                raise
            return  # the training removed it meanwhile, because it has newer ones

        # what the run computes, for runs on other machines
        record = asdict(self.spec)
        record["copied"] = datetime.now(UTC).isoformat()
        self.files.pipe_file(f"{target}/{_RECORD}", json.dumps(record).encode())

    def _fetch(self, run: str, step: str, names: list[str], target: Path) -> None:
        if target.exists():
            return
        with replace_directory(target) as partial:
            for name in names:
                (partial / name).parent.mkdir(parents=True, exist_ok=True)
                self.files.get_file(f"{self.root}/{run}/{step}/{name}", str(partial / name))

    def _remove(self, run: str) -> None:
        if self.files.exists(f"{self.root}/{run}"):
            self.files.rm(f"{self.root}/{run}", recursive=True)

    @contextlib.contextmanager
    def _tried(self, what: str) -> Iterator[None]:
        """Report an error of the storage, once, and go on without it."""
        try:
            yield
        except Exception as error:  # each file system has its own
            message = redacted(f"{what}: {type(error).__name__}: {error}")
            if message not in self._warned:
                self._warned.add(message)
                self.warn(message)


def _complete(checkpoints: Path) -> list[Path]:
    """List the complete checkpoints in a folder, in the order of their steps."""
    steps = []
    for key in checkpoints.glob("*"):
        if key.name.startswith("."):
            continue
        for step in key.glob("step-*"):
            if (step / MARKER).exists():
                steps.append(step)
    return sorted(steps, key=lambda step: step.name)


def open_storage(root: Path, where: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """Return the file system and the folder of a storage.

    Args:
        root: The repository.
        where: ``dvc``, a path relative to the repository, or an address that fsspec knows.

    Raises:
        StorageError: It is no storage that lists its files, or a package is missing.
    """
    setting = "training.checkpoints in conf/flows.yaml"
    try:
        if where == DVC:
            files, folder = _dvc_remote(root)
        else:
            address = where if "://" in where else str(root / where)
            files, folder = fsspec.core.url_to_fs(address)
    except Exception as error:  # each file system has its own
        raise StorageError(redacted(f"{setting}: {where} cannot be used. {error}")) from None

    # A file system has one protocol or several.
    protocols = files.protocol
    if isinstance(protocols, str):
        protocols = (protocols,)
    if "http" in protocols or "https" in protocols:
        raise StorageError(
            redacted(
                f"{setting}: {where} is on HTTP, which lists no files. Name a shared folder, or storage such"
                " as s3://..."
            )
        )
    return files, str(folder).rstrip("/")


def _dvc_remote(root: Path) -> tuple[Any, str]:
    """Return the file system of the default DVC remote, with its credentials, and a folder in it.

    The folder is beside what DVC stores.
    """
    from dvc.fs import LocalFileSystem, get_cloud_fs

    config = dvc_config(root)
    require_remote(root)
    kind, settings, path = get_cloud_fs(config, name=config["core"]["remote"])
    if kind is LocalFileSystem:
        files = fsspec.filesystem("file")
    else:
        files = kind(**settings).fs
    return files, f"{path.rstrip('/')}/checkpoints"
