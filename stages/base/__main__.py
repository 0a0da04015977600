"""Bring the pretrained model into the project: no later stage needs a network, changed weights train again.

Reads: ``model.checkpoint`` and ``tokenize.tokenizer``: a repository of the hub at the commit of its revision,
or a folder under ``models/source/``.
Checks: the model type, that the weights are complete safetensors, that the tokenizer has the vocabulary of
the weights, and that the pipeline reads the tokens of its ``tokenizer.json``.
Writes: ``models/base/source.json`` (names, commits, licences, SHA-256), ``models/base/model/`` and
``models/base/tokenizer/``; only the first when a model is trained from scratch, with a tokenizer trained on
the train split.
"""

import re
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from stages.base.doubts import tokenizer_doubts
from stages.base.tokens import check_tokens
from stages.base.vocabulary import check_vocabulary
from tuneline.checkpoints.pretrained import (
    COMMIT_HASH,
    CONFIG,
    INDEX,
    Pretrained,
    check_model_type,
    find_pretrained,
)
from tuneline.core.base_source import BaseSource, PretrainedSource
from tuneline.core.hashes import file_hash
from tuneline.core.launch import check_launch
from tuneline.core.provenance import write_provenance
from tuneline.core.stage import run_stage
from tuneline.core.tokenizer_files import TOKENIZER_JSON
from tuneline.core.written_records import write_record
from tuneline.model.tokenizer import load_tokenizer
from tuneline.params import Params
from tuneline.params.loading import load_params, print_warnings
from tuneline.paths import BASE, BASE_MODEL, BASE_RECORD, BASE_TOKENIZER
from tuneline.runtime.atomic_files import replace_directory
from tuneline.runtime.errors import ParamsError, StageError
from tuneline.runtime.terminal import say

WRAPPERS = ("_orig_mod.", "module.")
"""Prefixes of the weights of a model that was saved inside ``torch.compile``'s or DDP's wrapper."""
LAYER = re.compile(r"\.(?:layer|layers|h|block|blocks)\.(\d+)\.")
"""Number of a layer in the name of a weight."""


def check_weights(checkpoint: Pretrained, folder: Path) -> None:
    """Check that every safetensors file in a folder is complete, and that they have weights of every layer.

    The stage ``train`` compares each weight, and comes after all stages of data.
    What the names alone show is reported here.
    """
    from safetensors import SafetensorError, safe_open

    names: list[str] = []
    for name in checkpoint.weight_files():
        if name == INDEX:
            continue
        try:
            with safe_open(folder / name, framework="numpy") as weights:
                names += weights.keys()
        except SafetensorError as error:
            raise checkpoint.damaged(name, f"it is truncated or damaged ({error})") from None
    check_names(checkpoint, names)


def check_names(checkpoint: Pretrained, names: Sequence[str]) -> None:
    """Check the names of the weights of a checkpoint: each layer has some, and none is behind a wrapper."""
    where = f"{checkpoint.key}: {checkpoint.label}"
    for name in names:
        if name.startswith(WRAPPERS):
            raise ParamsError(
                f"{where}: its weights are those of a wrapped model, such as {name!r}, which transformers"
                " would leave out.",
                "Save the model itself, as by"
                " accelerator.unwrap_model(model).save_pretrained('models/source/NAME').",
            )

    config = checkpoint.config()
    layers = config.get("num_hidden_layers")
    shares_weights = "num_hidden_groups" in config  # as in ALBERT
    layers_with_weights = set()
    for name in names:
        match = LAYER.search(name)
        if match is not None:
            layers_with_weights.add(int(match[1]))
    # without a number in any name, the layers are named in another way
    if not isinstance(layers, int) or shares_weights or not layers_with_weights:
        return
    missing = set(range(layers)) - layers_with_weights
    if missing:
        raise ParamsError(
            f"{where}: it has no weights of layer {min(missing)}, and its config.json says that it has"
            f" {layers} layers.",
            "The file is incomplete, or config.json is that of another model: fetch both again.",
        )


def bring(params: Params, target: Path) -> BaseSource:
    """Fetch and check what the parameters name, into an empty folder.

    The weights come last, because they take longest.
    """
    checkpoint = find_checkpoint(params)
    tokenizer = find_tokenizer(params, checkpoint)

    tokenizer_source = None
    if tokenizer is not None:
        names = list(tokenizer.tokenizer_files())
        if CONFIG in tokenizer.files:  # AutoTokenizer may take the kind of tokenizer from it
            names.append(CONFIG)
        tokenizer_source = copy(tokenizer, names, target / BASE_TOKENIZER.name)
        check_tokenizer(tokenizer, target / BASE_TOKENIZER.name, checkpoint)

    checkpoint_source = None
    if checkpoint is not None:
        checkpoint_source = copy(checkpoint, [CONFIG, *checkpoint.weight_files()], target / BASE_MODEL.name)
        check_weights(checkpoint, target / BASE_MODEL.name)
    return BaseSource(tokenizer=tokenizer_source, checkpoint=checkpoint_source)


def check_tokenizer(pretrained: Pretrained, folder: Path, checkpoint: Pretrained | None) -> None:
    """Check the copied tokenizer: it loads, gives the tokens that it was saved with, and fits the model.

    One without ``tokenizer.json`` gets the converted one: all later stages read that.
    """
    label = f"{pretrained.key}: {pretrained.label}"
    tokenizer = load_tokenizer(folder, label)
    if not (folder / TOKENIZER_JSON).exists():
        tokenizer.backend_tokenizer.save(str(folder / TOKENIZER_JSON))
    check_tokens(tokenizer, folder, label)
    check_vocabulary(tokenizer, pretrained, checkpoint)
    for doubt in tokenizer_doubts(tokenizer, folder, checkpoint):
        say(f"base: WARNING: {label}: {doubt}")


def find_checkpoint(params: Params) -> Pretrained | None:
    """Find the checkpoint; ``None`` if the model is trained from scratch."""
    if params.model.checkpoint is None:
        return None
    checkpoint = find_pretrained(params.model.checkpoint, params.model.revision)
    announce_commit(checkpoint, params.model.revision)
    check_model_type(checkpoint)
    checkpoint.weight_files()  # refuses a checkpoint without safetensors before anything is fetched
    return checkpoint


def find_tokenizer(params: Params, checkpoint: Pretrained | None) -> Pretrained | None:
    """Find the tokenizer: the checkpoint's, unless ``tokenize.tokenizer`` names another.

    The result is ``None`` if a tokenizer is trained on the train split.
    """
    tokenizer = checkpoint
    name = params.tokenize.tokenizer
    if name is not None and (checkpoint is None or name != checkpoint.name):
        tokenizer = find_pretrained(name, None, "tokenize.tokenizer")
        announce_commit(tokenizer, None)
    if tokenizer is not None and not tokenizer.tokenizer_files():
        raise ParamsError(
            f"{tokenizer.key}: {tokenizer.label} has no tokenizer.",
            "Name the one that the model was trained with: tokenize.tokenizer.",
        )
    return tokenizer


def announce_commit(pretrained: Pretrained, revision: str | None) -> None:
    """Print the commit of a branch or tag: nothing looks at the branch again until the stage is forced."""
    if pretrained.commit is None:  # a folder
        return
    revision = revision or "main"
    if not COMMIT_HASH.fullmatch(revision):
        say(
            f"base: {pretrained.name}: {revision} is commit {pretrained.commit} now; `dvc repro"
            " --force base` looks again"
        )


def copy(pretrained: Pretrained, names: Sequence[str], target: Path) -> PretrainedSource:
    """Fetch files and copy them.

    A copy that does not fit on the disk, or differs from what the hub lists, is refused.
    """
    folder = pretrained.fetch(names)
    target.mkdir()
    try:
        for name in names:
            shutil.copyfile(folder / name, target / name)
    except OSError as error:
        size = sum(pretrained.files[name] for name in names)
        raise StageError(
            f"{pretrained.key}: {pretrained.label} cannot be copied from {folder} to {BASE}:"
            f" {error.strerror}.",
            f"It needs {size / 2**20:,.0f} MB there.",
        ) from None

    # hashes of the copies: they show a damaged download and a damaged copy
    sha256 = {name: file_hash(target / name) for name in names}
    for name, listed in pretrained.sha256.items():
        if name in sha256 and sha256[name] != listed:
            raise pretrained.damaged(name, "its SHA-256 is not the one that the hub lists")
    return PretrainedSource(
        name=pretrained.name, commit=pretrained.commit, license=pretrained.license(), sha256=sha256
    )


def main() -> None:
    """Read the parameters, and write ``models/base/``."""
    params = load_params()
    check_launch(params.train.launch)
    print_warnings("base", params)
    with replace_directory(BASE) as folder:
        source = bring(params, folder)
        write_record(folder / BASE_RECORD.name, source)
    if source.checkpoint is None:
        say("base: no checkpoint: the model is trained from scratch")
    else:
        say(f"base: {source.checkpoint.description}")


if __name__ == "__main__":
    run_stage("base", main, partial(write_provenance, "base", ("huggingface_hub",)))
