"""Copies in the DVC remote are whole, or are said not to be, and no reader removes one."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dvc_files import add_remote, init_dvc
from tests.faults.disks import on_full_disk
from tests.project import GIT_IDENTITY
from tuneline.repository import remote
from tuneline.repository.dvc import cached_file, folder_hash
from tuneline.repository.git import lock_at
from tuneline.repository.remote import UnavailableError

MODEL = "models/onnx"
FILES = {"model.onnx": b"weights" * 1000, "tokenizer.json": b"{}"}
PIPELINE = """stages:
  train:
    cmd: train
    outs: [models/onnx, notes.txt]
    metrics: [{metrics.json: {cache: false}}]
"""
LOCK = "schema: '2.0'\nstages:\n  train:\n    cmd: train\n    outs:\n"


@pytest.fixture
def project(tmp_path) -> Path:
    """A commit with a model, a file and metrics, in DVC's cache and in no remote."""
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main")
    init_dvc(root)
    for name, content in FILES.items():
        path = root / MODEL / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    listing = folder_listing(root / MODEL)
    folder = store(root, listing) + ".dir"
    assert folder == folder_hash(root / MODEL)
    stored = cached(root, folder.removesuffix(".dir"))
    stored.rename(stored.with_name(f"{stored.name}.dir"))
    size = sum(map(len, FILES.values()))
    (root / "dvc.yaml").write_text(PIPELINE)
    outs = [
        locked("metrics.json", store(root, b"{}"), 2),
        locked(MODEL, folder, size),
        locked("notes.txt", store(root, b"a note"), 6),
    ]
    (root / "dvc.lock").write_text(LOCK + "".join(outs))
    (root / ".gitignore").write_text("/models\n")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=A result")
    add_remote(root, tmp_path / "shelf", local=True)
    return root


def locked(path: str, md5: str, size: int) -> str:
    return f"    - path: {path}\n      hash: md5\n      md5: {md5}\n      size: {size}\n"


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True, env={**os.environ, **GIT_IDENTITY})


def folder_listing(folder: Path) -> bytes:
    entries = []
    for name in sorted(FILES):
        entries.append({"md5": store(folder.parents[1], FILES[name]), "relpath": name})
    return json.dumps(entries).encode()


def store(root: Path, content: bytes) -> str:
    """Put an object into DVC's cache, and return its hash."""
    md5 = remote._md5(content)
    path = cached(root, md5)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o444)
    return md5


def cached(root: Path, md5: str) -> Path:
    return root / ".dvc" / "cache" / "files" / "md5" / md5[:2] / md5[2:]


def pushed(root: Path, name: str) -> Path:
    """The copy of a file of the model in the remote."""
    md5 = remote._md5(FILES[name])
    return root.parent / "shelf" / "files" / "md5" / md5[:2] / md5[2:]


def cut(path: Path, mode: int, size: int = 1000) -> None:
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.truncate(size)
    path.chmod(mode)


def without_cache(root: Path) -> Path:
    """A clone on another machine: the same remote, and an empty cache."""
    clone = root.parent / "clone"
    git(root.parent, "clone", "--quiet", str(root), str(clone))
    shutil.copy(root / ".dvc" / "config.local", clone / ".dvc")
    return clone


def test_push_sends_what_dvc_stores_and_nothing_that_git_has(project):
    assert remote.lacks(project, "HEAD", MODEL) == "the DVC remote does not have its files"
    assert remote.push(project, ["HEAD"]).messages() == []
    assert remote.lacks(project, "HEAD", MODEL) is None
    objects = [path for path in (project.parent / "shelf").rglob("*") if path.is_file()]
    assert len(objects) == len(FILES) + 2, "the list of the model's files, and the note"
    assert pushed(project, "model.onnx").read_bytes() == FILES["model.onnx"]


@pytest.mark.promise("damaged-copy")
@pytest.mark.parametrize("mode", [0o444, 0o644], ids=["protected", "unprotected"])
def test_damaged_copy_is_named_not_fetched_never_removed_and_repaired_by_a_push(project, mode, tmp_path):
    """DVC takes a protected one for whole, and removes any other."""
    remote.push(project, ["HEAD"])
    copy = pushed(project, "model.onnx")
    cut(copy, mode)

    # where the cache has the model, and where it has not
    assert remote.lacks(project, "HEAD", MODEL) == (
        "model.onnx in the DVC remote is damaged: 1,000 bytes instead of 7,000"
    )
    clone = without_cache(project)
    assert remote.lacks(clone, "HEAD", MODEL) == (
        "models/onnx in the DVC remote is damaged: its files have 1,002 bytes instead of 7,002"
    )
    with pytest.raises(UnavailableError, match=r"is damaged: it has 1,000 bytes"):
        remote.get(clone, "HEAD", MODEL, tmp_path / "model")
    assert not (tmp_path / "model").exists()
    assert remote.push(clone, ["HEAD"]).lost == {"HEAD": [MODEL]}
    assert copy.stat().st_size == 1000

    assert remote.push(project, ["HEAD"]).messages() == [
        "Damaged in the DVC remote, and now repaired: a file of models/onnx (1,000 bytes instead of 7,000)."
    ]
    assert remote.lacks(clone, "HEAD", MODEL) is None
    remote.get(clone, "HEAD", MODEL, tmp_path / "model")
    assert (tmp_path / "model/model.onnx").read_bytes() == FILES["model.onnx"]


@pytest.mark.promise("damaged-copy")
def test_copy_with_other_bytes_of_the_same_size_is_not_fetched(project, tmp_path):
    remote.push(project, ["HEAD"])
    copy = pushed(project, "tokenizer.json")
    copy.chmod(0o644)
    copy.write_bytes(b"[]")
    with pytest.raises(UnavailableError, match="is damaged"):
        remote.get(without_cache(project), "HEAD", f"{MODEL}/tokenizer.json", tmp_path / "tokenizer.json")
    assert not (tmp_path / "tokenizer.json").exists()
    assert copy.exists()


@pytest.mark.promise("damaged-copy")
def test_damaged_object_of_the_cache_is_not_pushed(project):
    cut(cached(project, remote._md5(FILES["model.onnx"])), 0o444)
    assert remote.push(project, ["HEAD"]).lost == {"HEAD": [MODEL]}
    assert not pushed(project, "model.onnx").exists()
    assert pushed(project, "tokenizer.json").exists(), "what is whole is pushed all the same"
    md5 = lock_at(project, "HEAD").out(MODEL)
    listing = project.parent / "shelf" / "files" / "md5" / md5[:2] / md5[2:]
    assert not listing.exists(), "with the list, DVC takes the folder for complete"


@pytest.mark.promise("damaged-copy")
def test_damaged_list_of_a_folder_is_no_copy_and_is_repaired(project):
    md5 = lock_at(project, "HEAD").out(MODEL)
    remote.push(project, ["HEAD"])
    cut(project.parent / "shelf" / "files" / "md5" / md5[:2] / md5[2:], 0o444, size=10)
    assert "its list of files in the DVC remote is damaged" in remote.lacks(project, "HEAD", MODEL)
    clone = without_cache(project)
    assert remote.lacks(clone, "HEAD", MODEL) == "the DVC remote does not have its files"
    remote.push(project, ["HEAD"])
    assert remote.lacks(clone, "HEAD", MODEL) is None


def test_one_file_of_a_folder_and_an_out_that_is_a_file_are_fetched(project, tmp_path):
    remote.push(project, ["HEAD"])
    clone = without_cache(project)
    remote.get(clone, "HEAD", f"{MODEL}/tokenizer.json", tmp_path / "one")
    remote.get(clone, "HEAD", "notes.txt", tmp_path / "note")
    assert ((tmp_path / "one").read_bytes(), (tmp_path / "note").read_bytes()) == (b"{}", b"a note")
    for path in ("nothing", f"{MODEL}/nothing"):
        with pytest.raises(LookupError):
            remote.get(clone, "HEAD", path, tmp_path / "nothing")


def test_weights_are_left_out_of_the_push_of_a_result(project):
    assert remote.push(project, ["HEAD"], weights=False).messages() == []
    objects = [path for path in (project.parent / "shelf").rglob("*") if path.is_file()]
    assert [path.read_bytes() for path in objects] == [b"a note"]


@pytest.mark.promise("damaged-copy")
def test_data_of_dvc_files_is_fetched_to_the_cache_unless_its_copy_is_damaged(project):
    source = project / "rows.csv"
    source.write_text("text,label\n")
    (project / "rows.csv.dvc").write_text(
        f"outs:\n- md5: {store(project, source.read_bytes())}\n  size: 11\n  hash: md5\n  path: rows.csv\n"
    )
    git(project, "add", "rows.csv.dvc")
    git(project, "commit", "--quiet", "--message=Rows")
    remote.push(project, ["HEAD"])
    clone = without_cache(project)
    md5 = remote._md5(source.read_bytes())
    copy = project.parent / "shelf" / "files" / "md5" / md5[:2] / md5[2:]

    cut(copy, 0o644, size=5)
    with pytest.raises(UnavailableError, match="is damaged"):
        remote.fetch(clone, ["rows.csv.dvc"])
    assert copy.exists()
    assert cached_file(clone, md5) is None

    remote.push(project, ["HEAD"])
    remote.fetch(clone, ["rows.csv.dvc"])
    assert cached_file(clone, md5).read_bytes() == source.read_bytes()


@pytest.mark.promise("incomplete-remote")
def test_file_that_the_remote_lost_is_missed_and_pushed_again(project):
    """DVC itself looks for the list of a folder's files only."""
    remote.push(project, ["HEAD"])
    pushed(project, "model.onnx").unlink()
    assert remote.lacks(project, "HEAD", MODEL) == "the DVC remote does not have its files"
    remote.push(project, ["HEAD"])
    assert remote.lacks(project, "HEAD", MODEL) is None


@pytest.mark.promise("lost-version")
def test_outs_that_are_nowhere_are_named(project):
    shutil.rmtree(project / ".dvc" / "cache" / "files")
    assert remote.push(project, ["HEAD"]).messages() == [
        "ERROR: of HEAD, neither the cache nor the DVC remote has an undamaged models/onnx, notes.txt"
    ]


@pytest.mark.promise("incomplete-remote")
def test_upload_that_fails_is_an_error(project, tmp_path):
    command = on_full_disk(
        tmp_path / "shelf", 4, sys.executable, "-P", "-m", "tuneline.repository.remote", "push", "HEAD"
    )
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "files failed to upload" in done.stderr.splitlines()[-1]


@pytest.mark.promise("damaged-copy")
@pytest.mark.parametrize(
    "listed", [pytest.param(1, id="listed"), pytest.param(1000, id="asked", marks=pytest.mark.slow)]
)
def test_object_store_is_asked_for_sizes_and_repaired(project, bucket, tmp_path, monkeypatch, listed):
    monkeypatch.setattr(remote, "LISTED", listed)
    add_remote(project, f"{bucket.url}/folder", name="store", local=True)
    assert remote.lacks(project, "HEAD", MODEL) == "the DVC remote does not have its files"
    assert remote.push(project, ["HEAD"]).messages() == []
    assert remote.lacks(project, "HEAD", MODEL) is None

    keys = bucket.keys()
    (key,) = (key for key in keys if bucket.get(key) == FILES["model.onnx"])
    bucket.put(key, b"cut")
    clone = without_cache(project)
    assert "its files have 5 bytes instead of 7,002" in remote.lacks(clone, "HEAD", MODEL)
    with pytest.raises(UnavailableError, match="is damaged: it has 3 bytes"):
        remote.get(clone, "HEAD", MODEL, tmp_path / "model")
    assert "3 bytes instead of 7,000" in remote.push(project, ["HEAD"]).messages()[0]
    remote.get(clone, "HEAD", MODEL, tmp_path / "model")
    assert (tmp_path / "model/model.onnx").read_bytes() == FILES["model.onnx"]
