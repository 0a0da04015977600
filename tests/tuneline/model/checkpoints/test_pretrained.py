from pathlib import Path

import pytest
from huggingface_hub import hf_hub_download

from tests.checkpoints import checkpoint_files
from tests.hub import LoopbackHub
from tuneline.core.runtime.errors import StageError
from tuneline.model.checkpoints.pretrained import find_pretrained

NAME = "someone/small-bert"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with a checkpoint, to which the client in this process is connected."""
    monkeypatch.chdir(tmp_path)
    with LoopbackHub(tmp_path / "hub") as hub:
        hub.connect(monkeypatch, tmp_path / "home")
        hub.add("models", NAME, checkpoint_files(), branches=("main", "stable"))
        yield hub


def commit_of(hub: LoopbackHub) -> str:
    return hub.repositories["models", NAME].commit


@pytest.mark.parametrize("revision", [None, "stable"])
def test_find_resolves_a_branch_and_lists_sizes(hub, revision):
    found = find_pretrained(NAME, revision)
    files = checkpoint_files()
    assert found.commit == commit_of(hub)
    assert found.files == {name: len(content) for name, content in files.items()}
    assert found.weight_files() == ["model.safetensors"]
    assert not [request for request in hub.requests if "/resolve/" in request], "nothing is downloaded yet"


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"[1]", "not a JSON object"), (b"{", "not valid JSON"), (b"\xff", "not valid JSON")],
)
def test_json_file_that_is_no_object_is_damaged(hub, content, problem):
    hub.add("models", "someone/broken", {**checkpoint_files(), "config.json": content})
    with pytest.raises(StageError, match=f"config.json of someone/broken at .* it is {problem}"):
        find_pretrained("someone/broken").config()


@pytest.mark.parametrize("shard", ["10KB"])
@pytest.mark.parametrize("place", ["hub", "folder"])
def test_parameters_are_counted_without_a_download_of_the_weights(hub, tmp_path, shard, place):
    from safetensors.numpy import load

    files = checkpoint_files(shard=shard)
    expected = sum(
        array.size
        for name, content in files.items()
        if name.endswith(".safetensors")
        for array in load(content).values()
    )
    if place == "hub":
        hub.add("models", "someone/counted", files)
        assert find_pretrained("someone/counted").parameters() == expected
        assert not list((tmp_path / "home").rglob("*.safetensors"))
    else:
        (tmp_path / "models/source/counted").mkdir(parents=True)
        for name, content in files.items():
            (tmp_path / "models/source/counted" / name).write_bytes(content)
        assert find_pretrained("models/source/counted").parameters() == expected


@pytest.mark.parametrize(
    ("card", "license"),
    [
        ("---\nlicense: mit\n---\n", "mit"),
        ("---\nlicense: [unclosed\n---\n", None),
    ],
)
def test_license_is_that_of_the_model_card(hub, card, license):  # noqa: A002
    hub.add("models", "someone/licensed", {**checkpoint_files(), "README.md": card})
    assert find_pretrained("someone/licensed").license() == license


def test_weights_are_fetched_once_and_found_in_the_cache_without_a_network(hub, monkeypatch):
    found = find_pretrained(NAME)
    found.fetch(sorted(found.files))
    hub.requests.clear()
    folder = found.fetch(["model.safetensors"])
    assert not [request for request in hub.requests if request.startswith("GET") and "/resolve/" in request]
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    offline = find_pretrained(NAME, found.commit)
    assert offline.fetch(["model.safetensors"]) == folder
    assert offline.files == found.files


def test_branch_is_not_guessed_from_the_cache_without_a_network(hub, monkeypatch):
    find_pretrained(NAME).fetch(["config.json"])
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(StageError, match="HF_HUB_OFFLINE") as refused:
        find_pretrained(NAME, "main")
    assert "commit that was fetched before" in refused.value.hint


def test_incomplete_cache_is_not_taken_for_the_repository(hub, monkeypatch):
    """A cache with some of the files must not look like a checkpoint without weights."""
    found = find_pretrained(NAME)
    found.fetch(["config.json"])
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    offline = find_pretrained(NAME, found.commit)
    assert offline.files == found.files
    with pytest.raises(StageError, match=f"{NAME} cannot be fetched"):
        offline.fetch(["model.safetensors"])


def test_single_files_in_the_cache_are_not_taken_for_the_repository(hub, monkeypatch):
    """They do not say what else it has: a list of modules, with another pooling."""
    for name in checkpoint_files():
        hf_hub_download(NAME, name, revision=commit_of(hub))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(StageError, match="HF_HUB_OFFLINE is set") as refused:
        find_pretrained(NAME, commit_of(hub))
    assert "hf download NAME" in refused.value.hint


REFUSED = {
    "an unknown model": (
        "someone/unknown",
        None,
        r"the hub has no model 'someone/unknown', or it is private",
    ),
    "an unknown branch": (NAME, "nightly", r"someone/small-bert has no branch, tag or commit 'nightly'"),
    "an invalid name": ("some one/small--bert", None, r"is not the name of a model on the hub"),
    "a folder elsewhere": ("elsewhere/bert", None, r"'elsewhere/bert' is a folder outside models/source/"),
    "a folder that DVC has": (
        "models/source/tracked",
        None,
        r"models/source/tracked is not a folder.\n  `dvc pull models/source/tracked`",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_find_refuses(hub, tmp_path, case):
    name, revision, message = REFUSED[case]
    hub.private.add("someone/private")
    hub.add("models", "someone/private", checkpoint_files())
    (tmp_path / "elsewhere/bert").mkdir(parents=True)
    (tmp_path / "models/source").mkdir(parents=True)
    (tmp_path / "models/source/tracked.dvc").touch()
    with pytest.raises(StageError, match=rf"--checkpoint: .*{message}") as refused:
        find_pretrained(name, revision, "--checkpoint")
    assert len(str(refused.value).splitlines()) == 2


def test_gated_model_says_how_to_get_access(hub):
    hub.gated.add(NAME)
    with pytest.raises(StageError, match="access to someone/") as refused:
        find_pretrained(NAME).config()
    assert "hf auth login" in refused.value.hint


def test_hub_that_is_away_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with LoopbackHub(tmp_path / "hub") as hub:
        hub.connect(monkeypatch, tmp_path / "home")
    with pytest.raises(StageError, match=f"{hub.url}: .*refused") as refused:
        find_pretrained(NAME)
    assert "try again" in refused.value.hint
    assert refused.value.stage_status == 1, "another attempt may succeed"


def test_download_that_breaks_off_is_one_clear_error(hub):
    hub.cut["model.safetensors"] = 1000
    with pytest.raises(StageError, match=f"{NAME} .*{hub.url}") as refused:
        find_pretrained(NAME).fetch(["model.safetensors"])
    assert "What was downloaded is kept" in refused.value.hint
    hub.cut.clear()
    folder = find_pretrained(NAME).fetch(["model.safetensors"])
    assert (Path(folder) / "model.safetensors").read_bytes() == checkpoint_files()["model.safetensors"]
