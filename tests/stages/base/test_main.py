import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import BertTokenizer

from stages import base
from tests.checkpoints import WORDS, checkpoint_files, write_checkpoint
from tests.conftest import ROOT
from tests.faults.disks import on_small_disk
from tests.stages.base.conftest import NAME, use_checkpoint
from tuneline.core.runtime.errors import ParamsError, StageError


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def record(project: Path) -> dict:
    return json.loads((project / "models/base/source.json").read_text())


def test_model_from_scratch_needs_only_the_record(project):
    use_checkpoint(project, None)
    code = (
        "import runpy, sys\ntry: runpy.run_module('stages.base', run_name='__main__')\n"
        + "finally: assert not {'torch', 'transformers', 'huggingface_hub', 'numpy'} & set(sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=project,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        check=True,
    )
    assert sorted(contents(project / "models/base")) == ["source.json"]
    assert record(project) == {"checkpoint": None, "tokenizer": None}
    provenance = json.loads((project / "reports/provenance/base.json").read_text())
    assert provenance["parameters"]["model.checkpoint"] is None


def test_checkpoint_of_the_hub_is_copied_with_commit_licence_and_hashes(project, hub, capsys):
    base.main()
    files, written = checkpoint_files(), contents(project / "models/base")
    assert {
        name.removeprefix("model/"): content for name, content in written.items() if name.startswith("model/")
    } == {name: files[name] for name in ("config.json", "model.safetensors")}
    assert {name for name in written if name.startswith("tokenizer/")} == {
        "tokenizer/config.json", "tokenizer/tokenizer.json", "tokenizer/tokenizer_config.json"
    }  # fmt: skip
    checkpoint = record(project)["checkpoint"]
    commit = hub.repositories["models", NAME].commit
    assert (checkpoint["name"], checkpoint["commit"], checkpoint["license"]) == (NAME, commit, "apache-2.0")
    assert checkpoint["sha256"]["model.safetensors"] == hashlib.sha256(files["model.safetensors"]).hexdigest()
    assert record(project)["tokenizer"]["commit"] == commit
    assert f"base: {NAME} at {commit}" in capsys.readouterr().out
    revisions = {
        request.split("/resolve/")[1].split("/")[0] for request in hub.requests if "/resolve/" in request
    }
    assert revisions == {commit}, "all files are of one commit"


def test_pinned_commit_gives_the_same_files(project, hub):
    base.main()
    by_branch = contents(project / "models/base")
    use_checkpoint(project, NAME, hub.repositories["models", NAME].commit)
    base.main()
    assert contents(project / "models/base") == by_branch


def test_moved_branch_is_followed_when_the_stage_runs_again(project, hub):
    base.main()
    before = record(project)["checkpoint"]
    hub.add("models", NAME, checkpoint_files(seed=1))
    base.main()
    after = record(project)["checkpoint"]
    assert before["commit"] != after["commit"]
    assert before["sha256"]["model.safetensors"] != after["sha256"]["model.safetensors"]


def test_folder_gives_the_same_files_as_the_hub(project, hub):
    base.main()
    from_hub = contents(project / "models/base")
    write_checkpoint(project / "models/source/mine")
    use_checkpoint(project, "models/source/mine")
    base.main()
    from_folder = contents(project / "models/base")
    assert {**from_folder, "source.json": b""} == {**from_hub, "source.json": b""}
    assert record(project)["checkpoint"]["name"] == "models/source/mine"
    assert record(project)["checkpoint"]["license"] == "apache-2.0"
    assert "commit" not in record(project)["checkpoint"]


@pytest.mark.parametrize("origin", ["hub", "folder"])
def test_pooling_of_a_checkpoint_of_sentence_transformers_is_copied(project, hub, origin):
    pooling = b'{"pooling_mode_cls_token": true}'
    files = {**checkpoint_files(), "modules.json": b"[]", "1_Pooling/config.json": pooling}
    if origin == "hub":
        hub.add("models", "someone/vectors", files)
        use_checkpoint(project, "someone/vectors")
    else:
        folder = write_checkpoint(project / "models/source/vectors")
        (folder / "1_Pooling").mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
        use_checkpoint(project, "models/source/vectors")
    base.main()
    assert contents(project / "models/base")["model/1_Pooling/config.json"] == pooling
    recorded = record(project)["checkpoint"]["sha256"]["1_Pooling/config.json"]
    assert recorded == hashlib.sha256(pooling).hexdigest()


OFFLINE = {
    "a model of transformers": {},
    "pooling of the first token": {
        "modules.json": b"[]",
        "1_Pooling/config.json": b'{"pooling_mode_cls_token": true}',
    },
    "files that are not needed": {
        "model.fp16.safetensors": b"",
        "model.safetensors.index.json": b"{}",
        "onnx/model.onnx": b"",
    },
}


@pytest.mark.parametrize("case", OFFLINE)
def test_commit_that_was_fetched_gives_the_same_files_without_a_network(project, hub, monkeypatch, case):
    commit = hub.add("models", "someone/fetched", {**checkpoint_files(), **OFFLINE[case]})
    use_checkpoint(project, "someone/fetched", commit)
    base.main()
    online = contents(project / "models/base")
    shutil.rmtree(project / "models/base")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    base.main()
    assert contents(project / "models/base") == online


def test_sharded_checkpoint_is_copied_with_its_index(project, hub):
    files = checkpoint_files(shard="10KB")
    hub.add("models", "someone/sharded", files)
    use_checkpoint(project, "someone/sharded")
    base.main()
    shards = {name for name in files if name.endswith(".safetensors")}
    assert len(shards) > 1
    assert {path.name for path in (project / "models/base/model").iterdir()} == {
        "config.json",
        "model.safetensors.index.json",
        *shards,
    }


def test_tokenizer_with_more_tokens_than_embeddings_is_refused_before_the_weights_are_fetched(project, hub):
    tokenizer = BertTokenizer(vocab={word: number for number, word in enumerate([*WORDS, "more"])})
    files = {**checkpoint_files(), "tokenizer.json": tokenizer.backend_tokenizer.to_str().encode()}
    hub.add("models", "someone/more", files)
    use_checkpoint(project, "someone/more")
    with pytest.raises(ParamsError, match=rf"has {len(WORDS) + 1} tokens, and the weights {len(WORDS)} emb"):
        base.main()
    assert not [
        request for request in hub.requests if request.startswith("GET") and "model.safetensors" in request
    ]


def without(*names: str, **changed: bytes | str) -> dict[str, bytes | str]:
    """Return the files of the checkpoint without some of them; the names of changed ones have ``_`` for a
    dot."""
    return {**{name: content for name, content in checkpoint_files().items() if name not in names}, **changed}


def with_config(**values) -> dict[str, bytes | str]:
    """Return the files of the checkpoint with other values in ``config.json``; ``None`` removes a key."""
    config = {**json.loads(checkpoint_files()["config.json"]), **values}
    return {
        **checkpoint_files(),
        "config.json": json.dumps({key: value for key, value in config.items() if value is not None}),
    }


UNUSABLE = {
    "weights as a pickle": (
        {**without("model.safetensors"), "pytorch_model.bin": b"pickle"},
        "only as a pickle",
    ),
    "no tokenizer": (without("tokenizer.json"), "has no tokenizer"),
    "code of its own": (
        with_config(model_type="evil", auto_map={"AutoModel": "evil.Evil"}),
        "needs Python code from its repository",
    ),
    "unknown type": (
        with_config(model_type="unheard"),
        "is of type 'unheard', which cannot be trained: transformers [0-9.]+ does not have it",
    ),
    "T5": (
        with_config(model_type="t5"),
        "is of type 't5', which cannot be trained: its classifier reads the end token",
    ),
    "no classifier": (
        with_config(model_type="vit"),
        "is of type 'vit', which cannot be trained: .* has no text classifier",
    ),
    "a missing shard": (
        {
            **without("model.safetensors"),
            "model.safetensors.index.json": '{"weight_map": {"a": "model-00001-of-00001.safetensors"}}',
        },
        "lacks model-00001-of-00001.safetensors",
    ),
    "truncated weights": (
        {**checkpoint_files(), "model.safetensors": checkpoint_files()["model.safetensors"][:-100]},
        "model.safetensors of .*: it is truncated or damaged",
    ),
}


@pytest.mark.parametrize("case", UNUSABLE)
@pytest.mark.parametrize("place", ["hub", "folder"])
def test_unusable_checkpoint_is_one_clear_error(project, hub, case, place):
    files, message = UNUSABLE[case]
    if place == "hub":
        hub.add("models", "someone/unusable", files)
        use_checkpoint(project, "someone/unusable")
    else:
        (project / "models/source/unusable").mkdir()
        for name, content in files.items():
            (project / "models/source/unusable" / name).write_bytes(
                content.encode() if isinstance(content, str) else content
            )
        use_checkpoint(project, "models/source/unusable")
    with pytest.raises(StageError, match=rf"model\.checkpoint: (.|\n)*{message}") as refused:
        base.main()
    assert refused.value.hint
    assert not (project / "models/base").exists()


def test_remote_code_of_a_known_type_is_not_run(project, hub):
    trap = project / "ran"
    files = with_config(
        auto_map={"AutoConfig": "evil.Evil", "AutoModelForSequenceClassification": "evil.Evil"}
    )
    hub.add("models", "someone/evil", {**files, "evil.py": f"open({str(trap)!r}, 'w')\n"})
    use_checkpoint(project, "someone/evil")
    base.main()
    assert not trap.exists()
    assert not list((project / "models/base").rglob("*.py"))


def test_damaged_download_is_refused_with_its_place_in_the_cache(project, hub, tmp_path):
    hub.damaged.add("model.safetensors")
    with pytest.raises(StageError, match=r"model\.safetensors .*SHA") as refused:
        base.main()
    assert f"hf cache rm model/{NAME}" in refused.value.hint


def test_failed_run_keeps_the_previous_model(project, hub):
    base.main()
    before = contents(project / "models/base")
    use_checkpoint(project, "someone/unknown")
    with pytest.raises(ParamsError, match="'someone/unknown'"):
        base.main()
    assert contents(project / "models/base") == before


def test_stage_is_deterministic_and_records_no_path(project, hub):
    base.main()
    once = contents(project / "models/base")
    base.main()
    assert contents(project / "models/base") == once
    assert not [
        name
        for name, content in once.items()
        if str(project).encode() in content or hub.url.encode() in content
    ]


@pytest.mark.parametrize("full", [pytest.param("home", marks=pytest.mark.slow), "models"])
def test_full_disk_is_one_clear_error(project, hub, tmp_path, full):
    """A real file system of 64 kB is full: that of the cache, or that of the project."""
    home = tmp_path / "home"
    mounted = {"home": home, "models": project / "models"}[full]
    home.mkdir()
    hub.add("models", "someone/large", {**checkpoint_files(), "vocab.txt": b"a\n" * 200_000})
    use_checkpoint(project, "someone/large")
    command = on_small_disk(mounted, "64k", sys.executable, "-m", "stages.base")
    env = {**hub.env(home), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "disk" in done.stderr or "No space left" in done.stderr
