"""A Hugging Face hub on the loopback interface for tests: the real client connects to it, without a network.

It serves models (spaces as well) and data sets from folders, each with one commit and any number of branches
that point to it::

    with LoopbackHub(tmp_path / "hub") as hub:
        hub.add("datasets", "someone/reviews", {"data/train.parquet": parquet_bytes})
        subprocess.run([...], env=hub.env(tmp_path / "home"))

The client reads the address of the hub when it is imported: start a client as a process with ``hub.env``, or
change the address in this process with ``hub.connect``. The hub implements only what a client needs to read:
the commit of a revision, the list of files, and the files. ``gated``, ``private``, ``cut`` and ``damaged``
make it refuse or spoil them.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

Kind = Literal["models", "datasets"]
LARGE_FILES = {".safetensors", ".bin", ".parquet"}
"""Suffixes of the files that the hub keeps in LFS and lists with a SHA-256."""


@dataclass(frozen=True)
class Repository:
    """One model or data set: its folder, its commit, and the branches that point to the commit."""

    folder: Path
    commit: str
    branches: tuple[str, ...] = ("main",)

    def has_revision(self, revision: str) -> bool:
        return revision == self.commit or revision in self.branches

    def entry(self, path: Path) -> dict[str, Any]:
        """Return the entry of a file or folder in the list of files."""
        name = path.relative_to(self.folder).as_posix()
        if path.is_dir():
            return {"type": "directory", "path": name, "oid": self.commit, "size": 0}
        entry = {"type": "file", "path": name, "oid": _sha1(path.read_bytes()), "size": path.stat().st_size}
        if path.suffix in LARGE_FILES:
            entry["lfs"] = {
                "oid": hashlib.sha256(path.read_bytes()).hexdigest(),
                "size": entry["size"],
                "pointerSize": 134,
            }
        return entry

    def inside(self, name: str) -> Path | None:
        """Return the file or folder of this name, or ``None`` if it does not exist in the repository."""
        path = (self.folder / name).resolve()
        return path if path.exists() and path.is_relative_to(self.folder.resolve()) else None


@dataclass
class LoopbackHub:
    """A server for repositories on a free port of 127.0.0.1; a context manager."""

    root: Path
    repositories: dict[tuple[str, str], Repository] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    """Requests received, in order: ``GET /api/datasets/...``."""
    gated: set[str] = field(default_factory=set)
    """Repositories whose files nobody may read; their lists may be read, as on the real hub."""
    private: set[str] = field(default_factory=set)
    """Repositories that exist, but not for this client."""
    cut: dict[str, int] = field(default_factory=dict)
    """Number of bytes after which the connection breaks, by name of the file."""
    damaged: set[str] = field(default_factory=set)
    """Names of files whose content has another last byte than the list says."""

    def add(
        self,
        kind: Kind,
        name: str,
        files: Mapping[str, bytes | str] | Path,
        branches: tuple[str, ...] = ("main",),
    ) -> str:
        """Add a repository and return its commit.

        Args:
            kind: ``models`` or ``datasets``.
            name: ``owner/name``.
            files: Contents by path, or a folder to serve.
            branches: Names that point to the commit.
        """
        folder = files.resolve() if isinstance(files, Path) else self.root / kind / name
        if not isinstance(files, Path):
            for path, content in files.items():
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.encode() if isinstance(content, str) else content)
        contents = b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
        commit = _sha1(f"{kind}/{name}".encode() + contents)
        self.repositories[kind, name] = Repository(folder, commit, branches)
        return commit

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def env(self, home: Path) -> dict[str, str]:
        """Return the environment of a process that uses this hub, with its own cache and no proxy."""
        keep = {
            key: value
            for key, value in os.environ.items()
            if key not in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_TOKEN")
        }
        return {
            **keep,
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(home),
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }

    def connect(self, patch: pytest.MonkeyPatch, home: Path) -> None:
        """Let the client in this process use this hub, with its own cache, until the patch is undone."""
        from huggingface_hub import constants

        patch.setattr(constants, "ENDPOINT", self.url)
        patch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", self.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        patch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
        patch.setattr(constants, "HF_HUB_OFFLINE", False)

    def __enter__(self) -> "LoopbackHub":
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        self._thread = Thread(
            target=self._server.serve_forever, args=[0.01], daemon=True
        )  # seconds until it notices that it is to stop
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: LoopbackHub

    def do_GET(self) -> None:
        self.hub.requests.append(f"{self.command} {self.path}")
        path, _, query = self.path.partition("?")
        for pattern, answer in (
            (r"/api/(models|datasets)/([^/]+/[^/]+)(?:/revision/([^/]+))?", self._about),
            (r"/api/(models|datasets)/([^/]+/[^/]+)/tree/([^/]+)(?:/(.*))?", self._list),
            (r"/(datasets/|spaces/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self._file),
        ):
            if match := re.fullmatch(pattern, path):
                kind, name, revision, *rest = (
                    None if part is None else unquote(part) for part in match.groups()
                )
                repository = self._repository(
                    "datasets" if (kind or "").startswith("datasets") else "models", name or "", revision
                )
                return repository and answer(
                    repository, *rest, **({"query": parse_qs(query)} if answer == self._list else {})
                )
        return self._missing("EntryNotFound")

    do_HEAD = do_GET  # noqa: N815 - http.server requires this name

    def do_POST(self) -> None:
        """Answer ``paths-info``: the entries of those paths that exist."""
        self.hub.requests.append(f"POST {self.path}")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        match = re.fullmatch(
            r"/api/(models|datasets)/([^/]+/[^/]+)/paths-info/([^/]+)", urlsplit(self.path).path
        )
        if match is None:
            return self._missing("EntryNotFound")
        repository = self._repository(*(unquote(part) for part in match.groups()))
        if repository is None:
            return None
        names = json.loads(body)["paths"] if body.startswith("{") else parse_qs(body).get("paths", [])
        return self._reply(
            [repository.entry(path) for name in names if (path := repository.inside(name)) is not None]
        )

    def _repository(self, kind: str, name: str, revision: str | None) -> Repository | None:
        repository = self.hub.repositories.get((kind, name))
        if name in self.hub.private:
            self._missing("RepoNotFound", status=401)
        elif repository is None:
            self._missing("RepoNotFound")
        elif revision is not None and not repository.has_revision(revision):
            self._missing("RevisionNotFound")
        else:
            return repository
        return None

    def _about(self, repository: Repository) -> None:
        names = sorted(
            path.relative_to(repository.folder).as_posix()
            for path in repository.folder.rglob("*")
            if path.is_file()
        )
        name = next(name for (_, name), other in self.hub.repositories.items() if other is repository)
        self._reply(
            {
                "id": name,
                "sha": repository.commit,
                "private": False,
                "siblings": [{"rfilename": name} for name in names],
            }
        )

    def _list(self, repository: Repository, folder: str | None, query: Mapping[str, list[str]]) -> None:
        base = repository.inside(folder or "")
        if base is None or not base.is_dir():
            return self._missing("EntryNotFound")
        deep = query.get("recursive", ["false"])[0].lower() in ("1", "true")
        return self._reply(
            [repository.entry(path) for path in sorted(base.rglob("*") if deep else base.iterdir())]
        )

    def _file(self, repository: Repository, name: str) -> None:
        path = repository.inside(name)
        if path is None or not path.is_file():
            return self._missing("EntryNotFound")
        if any(repository is self.hub.repositories.get(("models", name)) for name in self.hub.gated):
            return self._missing("GatedRepo", status=403)
        content = path.read_bytes()
        if name in self.hub.damaged:
            content = content[:-1] + bytes([content[-1] ^ 1])
        headers = {
            "ETag": f'"{_sha1(content)}"',
            "X-Repo-Commit": repository.commit,
            "Accept-Ranges": "bytes",
        }
        part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if part is None:
            return self._reply(content, headers=headers, cut=self.hub.cut.get(name))
        first, last = int(part[1]), min(int(part[2] or len(content) - 1), len(content) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        return self._reply(content[first : last + 1], status=206, headers=headers, cut=self.hub.cut.get(name))

    def _missing(self, code: str, status: int = 404) -> None:
        self._reply({"error": code}, status=status, headers={"X-Error-Code": code, "X-Error-Message": code})

    def _reply(
        self,
        content: Any,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        cut: int | None = None,
    ) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        kind = "application/octet-stream" if isinstance(content, bytes) else "application/json"
        self.send_response(status)
        for key, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:cut])
            self.close_connection = self.close_connection or cut is not None

    def log_message(self, *_: object) -> None:
        """Print nothing: the requests are in ``hub.requests``."""


def _sha1(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()
