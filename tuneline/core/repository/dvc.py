"""What this project knows about DVC: ``dvc.lock``, the layout of the cache, and settings.

This module imports DVC for its settings (``dvc_config``); everything else is done by its commands
(``programs.py``). ``python -m tuneline.core.repository.dvc`` gives this checkout a site cache of its
own.
"""

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from tuneline.core.paths import BASE, RAW, SITE_CACHE
from tuneline.core.runtime.errors import StageError

CODE_FOLDERS = ("project/", "stages/", "tuneline/")
"""Folders with the code that stages depend on."""


@lru_cache(maxsize=16)
def load_yaml(text: str) -> Any:
    """Return the content of a YAML file, which must not be changed.

    It is kept, because a run reads the same ``dvc.lock`` ten times. Parsed as DVC does, by the C library
    where it is installed: ``dvc.lock`` in 0.04 s instead of 0.17.

    Raises:
        YAMLError: It is not valid YAML.
    """
    return YAML(typ="safe").load(text)


@dataclass(frozen=True)
class Lock:
    """One version of ``dvc.lock``: commands, parameters, and the hashes of dependencies and outs."""

    text: str = field(repr=False)

    @cached_property
    def stages(self) -> Mapping[str, Any]:
        """Stages by name; empty if the file is empty or invalid YAML."""
        try:
            loaded = load_yaml(self.text)
        except YAMLError:
            return {}
        if not isinstance(loaded, dict):
            return {}
        return dict(loaded.get("stages") or {})

    def out(self, path: str) -> str | None:
        """Return the hash of an out, as DVC writes it; ``None`` if no stage has that out."""
        for stage in self.stages.values():
            for out in stage.get("outs", []):
                if out["path"] == path:
                    md5: str = out["md5"]
                    return md5
        return None

    def dep(self, stage: str, path: str) -> str | None:
        """Return the hash of a dependency that a stage ran with, as DVC writes it.

        ``None`` if the stage has no such dependency.
        """
        for dep in self.stages.get(stage, {}).get("deps", []):
            if dep["path"] == path:
                md5: str = dep["md5"]
                return md5
        return None

    def params(self) -> dict[str, Any]:
        """Return the parameters of all stages by dotted key, also where a stage lists a whole section.

        Where stages ran with different values, the one of ``evaluate`` counts: the metrics are its own.
        """
        listed = []
        for name in sorted(self.stages, key=lambda name: name == "evaluate"):
            listed += self.stages[name].get("params", {}).values()
        return by_key(listed)

    def outs(self) -> dict[str, str]:
        """Return the hash of every out, by path."""
        return _outs(self.stages)

    def consistent(self) -> "Lock":
        """Return the lock without stages that ran on outs of another version, and without what needs them."""
        made = set(self.outs())
        stages = dict(self.stages)
        # What a removed stage made is missing for the stages after it, so they are found in the next round.
        while True:
            outdated = _outdated(stages, made)
            if not outdated:
                break
            for name in outdated:
                del stages[name]
        if len(stages) == len(self.stages):
            return self
        return Lock(json.dumps({"stages": stages}))

    def reported_rows(self) -> tuple[str | None, Any]:
        """Return what determines the rows of ``reports/predictions.parquet``.

        These are the hash of the raw splits, and the reported split.
        """
        return self.out(RAW.as_posix()), self.params().get("evaluate.split")

    def code(self) -> dict[str, str]:
        """Return the hash of every file and folder of code that a stage ran with, by path."""
        code = {}
        for stage in self.stages.values():
            for dep in stage.get("deps", []):
                if dep["path"].startswith(CODE_FOLDERS):
                    code[dep["path"]] = dep["md5"]
        return dict(sorted(code.items()))


def by_key(stages: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the parameters that stages list, by dotted key, also where a stage lists a whole section."""
    params: dict[str, Any] = {}
    for listed in stages:
        for key, value in listed.items():
            is_section = isinstance(value, dict) and "." not in key
            if not is_section:
                params[key] = value
                continue
            for name, entry in value.items():
                params[f"{key}.{name}"] = entry
    return params


def _outs(stages: Mapping[str, Any]) -> dict[str, str]:
    """Return the hash of every out of some stages, by path."""
    outs = {}
    for stage in stages.values():
        for out in stage.get("outs", []):
            outs[out["path"]] = out["md5"]
    return outs


def _outdated(stages: Mapping[str, Any], made: set[str]) -> list[str]:
    """List the stages that depend on an out, one of ``made``, whose hash is another one in ``stages``."""
    outs = _outs(stages)
    outdated = []
    for name, stage in stages.items():
        for dep in stage.get("deps", []):
            path = dep["path"]
            if path in made and outs.get(path) != dep.get("md5"):
                outdated.append(name)
                break
    return outdated


def read_lock(root: Path) -> Lock:
    """Return ``dvc.lock`` of the working tree; empty if there is none.

    Raises:
        StageError: A merge left a conflict in it.
    """
    path = root / "dvc.lock"
    if not path.exists():
        return Lock("")
    text = path.read_text(encoding="utf-8")
    if "<<<<<<< " in text:
        raise StageError(
            "dvc.lock: a merge left a conflict.",
            "Keep the runs of one branch: git checkout --ours dvc.lock metrics (or --theirs), then dvc"
            " checkout, dvc repro, and git add dvc.lock metrics.",
        )
    return Lock(text)


def is_lock(file: Path) -> bool:
    """Return True if a file has stages as ``dvc.lock`` has; a full disk leaves it empty."""
    try:
        loaded = load_yaml(file.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, YAMLError):
        return False
    return isinstance(loaded, dict) and isinstance(loaded.get("stages"), dict)


def dvc_config(root: Path) -> dict[str, Any]:
    """Return DVC's settings in a checkout: all levels merged, relative addresses resolved."""
    from dvc.config import Config  # takes a fifth of a second to import

    return dict(Config(dvc_dir=str(root / ".dvc")))


def default_remote(root: Path) -> str | None:
    """Return the name of the default remote; ``None`` if there is none."""
    name: str | None = dvc_config(root).get("core", {}).get("remote")
    return name


class NoRemoteError(Exception):
    """There is no DVC remote."""


def require_remote(root: Path) -> None:
    """Check that there is a default remote, else raise ``NoRemoteError``.

    DVC creates the folder of a disk that is not mounted, so the folder has to exist.
    """
    if not default_remote(root):
        raise NoRemoteError(
            "DVC has no default remote. Set one (`dvc remote add --default NAME URL`), or run with"
            " push=false."
        )
    folder = remote_folder(root)
    if folder is not None and not folder.is_dir():
        raise NoRemoteError(
            f"{folder}, the folder of the DVC remote, does not exist. Mount its disk, or create it: mkdir"
            f" {folder}"
        )


def remote_folder(root: Path) -> Path | None:
    """Return the folder of the default remote; ``None`` if there is no remote, or it is not a folder."""
    settings = dvc_config(root)
    name = settings.get("core", {}).get("remote")
    url = str(settings.get("remote", {}).get(name, {}).get("url", ""))
    if not url or "://" in url:
        return None
    return Path(url)


def is_weights(path: str) -> bool:
    """Return True for an out that a training made, and can make again from its commit.

    The base model is none.
    """
    return Path(path).is_relative_to(BASE.parent) and not Path(path).is_relative_to(BASE)


def cache_folder(root: Path) -> Path:
    """Return the folder of the cache, which may be in another clone."""
    return Path(dvc_config(root).get("cache", {}).get("dir") or root / ".dvc" / "cache")


def share_settings(root: Path, worktree: Path) -> None:
    """Write the local settings of a worktree: the cache of the repository, and its remotes.

    The addresses of the remotes are valid from there.
    """
    settings = dvc_config(root)
    local = root / ".dvc" / "config.local"
    if local.exists():
        shutil.copy(local, worktree / ".dvc" / "config.local")
    with local_settings(worktree) as edited:
        edited.setdefault("cache", {})["dir"] = str(cache_folder(root))
        edited.setdefault("core", {})["check_update"] = False
        default = settings["core"].get("remote")
        if default:  # the commit of the worktree may be older than the remote
            edited["core"]["remote"] = default
        for name, remote in settings["remote"].items():
            section = edited.setdefault(f'remote "{name}"', {})
            section["url"] = remote["url"]
            section["verify"] = True  # what is fetched is compared with its hash


@contextmanager
def local_settings(root: Path) -> Iterator[dict[str, Any]]:
    """Yield the sections of ``.dvc/config.local`` to change them, and write the file.

    ``dvc config`` writes ASCII, so it cannot write the path of a folder with any other letter.
    """
    from configobj import ConfigObj  # type: ignore[import-untyped]

    settings = ConfigObj(str(root / ".dvc" / "config.local"), encoding="utf-8", default_encoding="utf-8")
    yield settings
    settings.write()


def cached_out(root: Path, lock: Lock, path: str) -> Path | None:
    """Return where the cache has a file that is an out, or that is in a folder that is an out.

    ``None`` if it is not in the cache.
    """
    md5 = lock.out(path)
    if md5:
        return cached_file(root, md5)
    folder, _, name = path.rpartition("/")
    files = cached_folder(root, lock, folder) or {}
    return files.get(name)


def cached_folder(root: Path, lock: Lock, path: str) -> dict[str, Path | None] | None:
    """Return where the cache has the files of a folder that is an out, by their names in the folder.

    The value is ``None`` for a file that the cache lacks. ``None`` instead of a mapping if the path is not
    such a folder, or the cache lacks its listing, or has a damaged one.
    """
    md5 = lock.out(path)
    if md5 is None or not md5.endswith(".dir"):
        return None
    listing = cached_file(root, md5)
    if listing is None or not is_intact(listing):
        return None
    cache = cache_folder(root)
    entries = json.loads(listing.read_text(encoding="utf-8"))
    return {entry["relpath"]: file_in_cache(cache, entry["md5"]) for entry in entries}


def cached_files(root: Path, lock: Lock, path: str) -> dict[str, Path | None]:
    """Return where the cache has the files of an out, by their names in the folder.

    A path that is a file, or in a folder, has the name ``""``. The value is ``None`` for a file that the
    cache lacks.
    """
    folder = cached_folder(root, lock, path)
    if folder is None:
        return {"": cached_out(root, lock, path)}
    return folder


def cached_file(root: Path, md5: str) -> Path | None:
    """Return where the cache has a file or a folder's listing with that hash; ``None`` if it lacks it."""
    return file_in_cache(cache_folder(root), md5)


def file_in_cache(cache: Path, md5: str) -> Path | None:
    """Return where a cache has a file or a folder's listing with that hash; ``None`` if it lacks it.

    ``cache`` is what ``cache_folder`` returns, which reads DVC's settings.
    """
    path = Path(
        f"{cache}/files/md5/{md5[:2]}/{md5[2:]}"
    )  # with three slashes, it would take three times as long
    return path if path.is_file() else None


def is_intact(cached: Path) -> bool:
    """Return True if a file of the cache has the content that its name, the MD5 of the content, says."""
    return md5_of(cached) == f"{cached.parent.name}{cached.name}".removesuffix(".dir")


def md5_of(path: Path) -> str:
    """Return the hash that DVC gives a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def make_site_cache_private(root: Path) -> None:
    """Make DVC's site cache in the project, and name it in ``.dvc/config.local``.

    DVC keeps pickles there, and would make one folder for all users of the machine: a pickle executes what
    its writer wants.
    """
    folder = root.resolve() / SITE_CACHE
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with local_settings(root) as settings:
        settings.setdefault("core", {})["site_cache_dir"] = str(folder)


if __name__ == "__main__":
    make_site_cache_private(Path())
