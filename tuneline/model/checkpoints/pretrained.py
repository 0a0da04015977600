"""Pretrained models: a repository of the hub at one commit, or a folder under ``models/source/``.

``find_pretrained`` lists the files of one, and ``Pretrained`` fetches them: those of the hub into the cache
that all Hugging Face libraries share. Nothing here loads weights or runs code of a repository.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tuneline.core.params.train import ENCODERS, UNSUPPORTED, is_folder
from tuneline.core.paths import BASE_SOURCE
from tuneline.core.runtime.errors import ParamsError, StageError
from tuneline.model.checkpoints.hub import hub_errors_explained
from tuneline.model.tokens.architectures import MODULES, POOLING
from tuneline.model.tokens.tokenizer_settings import SETTINGS_FILES, TOKENIZER_FILES

CONFIG, CARD, WEIGHTS, INDEX = "config.json", "README.md", "model.safetensors", "model.safetensors.index.json"
PICKLES = re.compile(r"pytorch_model.*\.bin(\.index\.json)?")
COMMIT_HASH = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Pretrained:
    """A pretrained model whose files can be fetched.

    ``files`` are the sizes in bytes by path in the repository or folder; ``sha256`` has the large ones, as
    the hub lists them. ``key`` is the parameter or option that names the model, for messages.
    """

    name: str
    commit: str | None
    files: Mapping[str, int]
    sha256: Mapping[str, str] = field(default_factory=dict)
    key: str = "model.checkpoint"

    @property
    def label(self) -> str:
        """Name, and commit if it has one, for messages."""
        return self.name if self.commit is None else f"{self.name} at {self.commit[:12]}"

    def fetch(self, names: Sequence[str]) -> Path:
        """Return a folder with some of the files.

        Those of the hub are downloaded, unless the cache has them.
        """
        if self.commit is None:
            return Path(self.name)
        from huggingface_hub import snapshot_download

        with hub_errors_explained(self.key, self.name, self.commit):
            return Path(snapshot_download(self.name, revision=self.commit, allow_patterns=list(names)))

    def config(self) -> dict[str, Any]:
        """Return the contents of ``config.json``; raise a ParamsError if there is no such file."""
        if CONFIG not in self.files:
            raise ParamsError(
                f"{self.key}: {self.label} has no {CONFIG}, so it is not a model of transformers.",
                "A folder that save_pretrained wrote has one. An adapter (LoRA) must be merged first.",
            )
        return self.read_json(CONFIG)

    def read_json(self, name: str) -> dict[str, Any]:
        """Return the contents of a file with a JSON object; raise a ParamsError if it is something else."""
        try:
            values: Any = json.loads((self.fetch([name]) / name).read_text(encoding="utf-8"))
        except ValueError as error:
            raise self.damaged(name, f"it is not valid JSON: {error}") from None
        if not isinstance(values, dict):
            raise self.damaged(name, "it is not a JSON object")
        return values

    def license(self) -> str | None:
        """Return the licence that the metadata of the model card (``README.md``) states, or ``None``."""
        from huggingface_hub.repocard import metadata_load

        if CARD not in self.files:
            return None
        try:
            metadata = metadata_load(self.fetch([CARD]) / CARD) or {}
        except StageError:
            raise
        except Exception:  # a card is written by hand: it may be anything
            return None
        stated = metadata.get("license")
        if stated == "other":
            stated = metadata.get("license_name")
        if not isinstance(stated, str):
            return None
        return stated

    def weight_files(self) -> list[str]:
        """Return the names of the safetensors files, all existing, and of their index if they are shards."""
        if WEIGHTS in self.files:
            return [WEIGHTS]
        if INDEX not in self.files and any(PICKLES.fullmatch(name) for name in self.files):
            raise ParamsError(
                f"{self.key}: {self.label} has its weights only as a pickle (pytorch_model.bin), which can"
                " run code when it is loaded.",
                "Choose a revision with model.safetensors: many repositories have one on the branch"
                " refs/pr/1. Or convert it on a machine where that does no harm:"
                " AutoModel.from_pretrained(NAME).save_pretrained('models/source/NAME'), with the tokenizer.",
            )
        if INDEX not in self.files:
            problem = f"{self.key}: {self.label} has no weights for torch: neither {WEIGHTS} nor {INDEX}."
            raise ParamsError(problem, "Choose another checkpoint or revision.")
        shards = sorted({str(name) for name in (self.read_json(INDEX).get("weight_map") or {}).values()})
        for name in shards:
            if name not in self.files:
                problem = f"{self.key}: {self.label} lacks {name}, which {INDEX} lists."
                raise ParamsError(problem, self._fetch_again())
        return [INDEX, *shards]

    def parameters(self) -> int:
        """Return the number of parameters, from the headers of the safetensors files.

        The weights are not downloaded.
        """
        from huggingface_hub import HfApi, errors, get_local_safetensors_metadata

        self.weight_files()
        try:
            with hub_errors_explained(self.key, self.name, self.commit):
                if self.commit is None:
                    metadata = get_local_safetensors_metadata(self.name)
                else:
                    metadata = HfApi().get_safetensors_metadata(self.name, revision=self.commit)
        except errors.SafetensorsParsingError as error:
            raise self.damaged("a file of weights", str(error)) from None
        return sum(metadata.parameter_count.values())

    def tokenizer_files(self) -> list[str]:
        """Return the names of the tokenizer's files; empty if the repository has no tokenizer."""
        names = [name for name in TOKENIZER_FILES if name in self.files]
        # settings and added tokens alone are no tokenizer
        if SETTINGS_FILES.issuperset(names):
            return []
        return names

    def pooling_files(self) -> list[str]:
        """Return the name of the file with the pooling of a checkpoint of sentence-transformers, if any."""
        if not {MODULES, POOLING}.issubset(self.files):
            return []
        self.read_json(POOLING)  # a damaged one is refused
        return [POOLING]

    def damaged(self, name: str, problem: str) -> ParamsError:
        """Return the error for a damaged file."""
        return ParamsError(f"{self.key}: {name} of {self.label}: {problem}.", self._fetch_again())

    def _fetch_again(self) -> str:
        if self.commit is None:
            return f"Copy the model to {self.name} again (`git lfs pull` fetches what was not fetched)."
        from huggingface_hub import constants

        return (
            f"Remove {self.name} from the cache in {constants.HF_HUB_CACHE} (`hf cache rm"
            f" model/{self.name}`), and run this again."
        )


def find_pretrained(name: str, revision: str | None = None, key: str = "model.checkpoint") -> Pretrained:
    """Find a pretrained model and list its files.

    A branch or tag, or the main branch, is resolved to the commit that it points to now.

    Raises:
        ParamsError: The model or revision does not exist, or is not accessible.
        StageError: The hub cannot be reached.
    """
    if is_folder(name):
        return _find_folder(name, key)
    if Path(name).is_dir():
        hint = f"Copy it to {BASE_SOURCE}/{Path(name).name} and name that: DVC detects changes only there."
        raise ParamsError(f"{key}: {name!r} is a folder outside {BASE_SOURCE}/.", hint)
    from huggingface_hub import HfApi

    if revision is not None and COMMIT_HASH.fullmatch(revision):
        commit = revision
    else:
        with hub_errors_explained(key, name, revision):
            commit = str(HfApi().model_info(name, revision=revision).sha)
    sizes, sha256 = _list(name, commit, key)
    return Pretrained(name, commit, sizes, sha256, key)


def _find_folder(name: str, key: str) -> Pretrained:
    folder = Path(name)
    if not folder.is_dir():
        if folder.with_name(f"{folder.name}.dvc").exists():
            hint = f"`dvc pull {name}` fetches it."
        else:
            hint = f"`ls {BASE_SOURCE}` shows what is there."
        raise ParamsError(f"{key}: {name} is not a folder.", hint)
    return Pretrained(folder.as_posix(), None, _file_sizes(folder), key=key)


def _file_sizes(folder: Path) -> dict[str, int]:
    """Return the size in bytes of each file in a folder and its subfolders, by path in the folder."""
    sizes = {}
    for path in folder.rglob("*"):
        if path.is_file():
            sizes[path.relative_to(folder).as_posix()] = path.stat().st_size
    return sizes


def _list(name: str, commit: str, key: str) -> tuple[dict[str, int], dict[str, str]]:
    """Return the sizes of all files, and the checksums of large ones.

    Without network, the cache has the list, without checksums, if files of this commit were fetched before.
    The files in the cache are not asked: they do not say what else the repository has.
    """
    from huggingface_hub import HfApi, errors, get_cached_repo_tree
    from huggingface_hub.hf_api import RepoFile, RepoFolder

    entries: Sequence[RepoFile | RepoFolder]
    try:
        with hub_errors_explained(key, name, commit):
            entries = list(HfApi().list_repo_tree(name, revision=commit, recursive=True))
    except StageError as unreachable:
        try:
            entries = get_cached_repo_tree(name, revision=commit)
        except (errors.CachedRepoTreeNotFoundError, errors.HFValidationError):
            raise unreachable from None

    sizes = {}
    sha256 = {}
    for entry in entries:
        if isinstance(entry, RepoFile):
            sizes[entry.path] = entry.size
            if entry.lfs:
                sha256[entry.path] = entry.lfs.sha256
    return sizes, sha256


def check_model_type(checkpoint: Pretrained) -> None:
    """Check that the checkpoint's model type can be trained.

    It can if transformers has a classifier for it, without code of the repository.
    """
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES

    config = checkpoint.config()
    model_type = config.get("model_type")
    if model_type in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES and model_type not in UNSUPPORTED:
        return
    library = f"transformers {version('transformers')}"
    if model_type in UNSUPPORTED:
        reason = UNSUPPORTED[model_type]
    elif model_type in CONFIG_MAPPING:
        reason = f"{library} has no text classifier for it"
    elif "auto_map" in config:
        reason = "it needs Python code from its repository (auto_map), which is never run"
    elif model_type is None:
        reason = "config.json has no model_type"
    else:
        reason = f"{library} does not have it"
    raise ParamsError(
        f"{checkpoint.key}: {checkpoint.label} is of type {model_type!r}, which cannot be trained: {reason}.",
        f"Choose {ENCODERS}.",
    )
