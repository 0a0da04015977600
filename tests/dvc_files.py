"""What ``dvc init``, ``dvc config`` and ``dvc remote add`` write, for tests of something else: each command
of DVC takes a second."""

import configparser
import hashlib
import json
import subprocess
from pathlib import Path


def init_dvc(root: Path) -> None:
    """Make a git repository one of DVC, and stage the files as ``dvc init`` does."""
    (root / ".dvc").mkdir()
    files = {".dvc/.gitignore": "/config.local\n/tmp\n/cache\n", ".dvc/config": "", ".dvcignore": ""}
    for name, text in files.items():
        (root / name).write_text(text)
    subprocess.run(["git", "add", *files], cwd=root, check=True)


def configure_dvc(root: Path, section: str, *, local: bool = False, **values: str) -> None:
    """Set values in a section of ``.dvc/config``, or of ``.dvc/config.local``, which git ignores."""
    path = root / ".dvc" / ("config.local" if local else "config")
    config = configparser.ConfigParser(interpolation=None)
    config.read(path)
    config.read_dict({section: values})
    with path.open("w") as file:
        config.write(file)


def add_remote(
    root: Path,
    url: Path | str,
    name: str = "shelf",
    *,
    default: bool = True,
    local: bool = False,
    **values: str,
) -> None:
    """Add a DVC remote; its folder is there, as that of a mounted disk."""
    if isinstance(url, Path):
        url.mkdir(parents=True, exist_ok=True)
    configure_dvc(root, f"'remote \"{name}\"'", local=local, url=str(url), **values)
    if default:
        configure_dvc(root, "core", local=local, remote=name)


ARTIFACT = "artifacts:\n  onnx: {path: models/onnx, type: model}\n"
"""A dvc.yaml with the artifact that ``add_model`` writes."""


def add_model(root: Path) -> None:
    """Write a ``dvc.lock`` that names a model in ``models/onnx``, and put the model into DVC's cache."""
    content = b"a model"
    listing = json.dumps([{"md5": _md5(content), "relpath": "model.onnx"}]).encode()
    stage = {"cmd": "export", "outs": [{"path": "models/onnx", "hash": "md5", "md5": f"{_md5(listing)}.dir"}]}
    (root / "dvc.lock").write_text(
        json.dumps({"schema": "2.0", "stages": {"export": stage}}, indent=2) + "\n"
    )
    for name, stored in ((_md5(content), content), (f"{_md5(listing)}.dir", listing)):
        path = root / ".dvc" / "cache" / "files" / "md5" / name[:2] / name[2:]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(stored)


def folder_hash(folder: Path) -> str:
    """Return the hash that DVC gives a folder: the MD5 of the list of its files with their MD5s."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    entries = [
        {"md5": _md5(path.read_bytes()), "relpath": path.relative_to(folder).as_posix()} for path in paths
    ]
    return f"{_md5(json.dumps(entries).encode())}.dir"


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def store_folder(root: Path, out: str, folder: Path, store: Path) -> None:
    """Write a ``dvc.lock`` that names the files of a folder as an out, and put them into a store of DVC's:
    its cache, or a remote that is a folder."""
    contents = {file.name: file.read_bytes() for file in sorted(folder.iterdir())}
    entries = [{"md5": _md5(content), "relpath": name} for name, content in contents.items()]
    listing = json.dumps(entries).encode()
    size = sum(map(len, contents.values()))
    stored = {
        "path": out,
        "hash": "md5",
        "md5": f"{_md5(listing)}.dir",
        "size": size,
        "nfiles": len(contents),
    }
    stage = {"cmd": "compare", "outs": [stored]}
    (root / "dvc.lock").write_text(json.dumps({"schema": "2.0", "stages": {"compare": stage}}) + "\n")
    objects = {_md5(content): content for content in contents.values()}
    for name, content in {**objects, f"{_md5(listing)}.dir": listing}.items():
        path = store / "files" / "md5" / name[:2] / name[2:]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
