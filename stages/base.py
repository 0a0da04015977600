"""Bring the pretrained model into the project: no later stage needs a network, changed weights train again.

Reads: ``model.checkpoint``: a repository of the hub at the commit of its revision, or a folder under
``models/source/``.
Checks: the model type, that the weights are complete safetensors with an embedding for each token, and that
the pipeline reads the tokens of its ``tokenizer.json``.
Writes: ``models/base/source.json`` (names, commits, licences, SHA-256), ``models/base/model/`` and
``models/base/tokenizer/``; only the first when a model is trained from scratch, with a tokenizer trained on
the train split.
"""

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tuneline.core.params import Params
from tuneline.core.params.loading import load_params, warn_of_learning_rate
from tuneline.core.paths import BASE, BASE_MODEL, BASE_RECORD, BASE_TOKENIZER
from tuneline.core.runtime.errors import ParamsError
from tuneline.core.runtime.files import replace_directory
from tuneline.core.runtime.terminal import say
from tuneline.core.stage.entry import run_stage
from tuneline.core.stage.launch import check_launch
from tuneline.core.stage.provenance import BaseSource, PretrainedSource, write_provenance
from tuneline.core.stage.records import file_hash, write_record
from tuneline.model.checkpoints.base_tokens import check_tokens
from tuneline.model.checkpoints.pretrained import (
    CONFIG,
    INDEX,
    Pretrained,
    check_model_type,
    find_pretrained,
)
from tuneline.model.tokens.tokenizer import load_tokenizer
from tuneline.model.tokens.tokenizer_settings import TOKENIZER_JSON


def check_weights(checkpoint: Pretrained, folder: Path) -> None:
    """Check that every safetensors file in a folder is complete: training comes after all stages of data."""
    from safetensors import SafetensorError, safe_open

    for name in checkpoint.weight_files():
        if name == INDEX:
            continue
        try:
            with safe_open(folder / name, framework="numpy"):
                pass
        except SafetensorError as error:
            raise checkpoint.damaged(name, f"it is truncated or damaged ({error})") from None


def bring(params: Params, target: Path) -> BaseSource:
    """Fetch and check the checkpoint that the parameters name, into an empty folder.

    The weights come last, because they take longest.
    """
    if params.model.checkpoint is None:
        return BaseSource(tokenizer=None, checkpoint=None)
    checkpoint = find_checkpoint(params.model.checkpoint, params.model.revision)
    names = list(checkpoint.tokenizer_files())
    names.append(CONFIG)  # AutoTokenizer may take the kind of tokenizer from it
    tokenizer = copy(checkpoint, names, target / BASE_TOKENIZER.name)
    check_tokenizer(checkpoint, target / BASE_TOKENIZER.name)

    names = [CONFIG, *checkpoint.pooling_files(), *checkpoint.weight_files()]
    weights = copy(checkpoint, names, target / BASE_MODEL.name)
    check_weights(checkpoint, target / BASE_MODEL.name)
    return BaseSource(tokenizer=tokenizer, checkpoint=weights)


def check_tokenizer(checkpoint: Pretrained, folder: Path) -> None:
    """Check the copied tokenizer: it loads, gives the tokens that it was saved with, and fits the model.

    One without ``tokenizer.json`` gets the converted one: all later stages read that.
    """
    label = f"{checkpoint.key}: {checkpoint.label}"
    tokenizer = load_tokenizer(folder, label)
    if not (folder / TOKENIZER_JSON).exists():
        tokenizer.backend_tokenizer.save(str(folder / TOKENIZER_JSON))
    check_tokens(tokenizer, folder, label)
    tokens = max(tokenizer.get_vocab().values()) + 1
    embeddings = checkpoint.config().get("vocab_size")
    if isinstance(embeddings, int) and tokens > embeddings:
        raise ParamsError(
            f"{label}: its tokenizer has {tokens:,} tokens, and the weights {embeddings:,} embeddings.",
            "Save weights and their own tokenizer into one folder models/source/NAME, and name that.",
        )


def find_checkpoint(name: str, revision: str | None) -> Pretrained:
    """Find the checkpoint, and refuse one that cannot be trained before anything is fetched."""
    checkpoint = find_pretrained(name, revision)
    check_model_type(checkpoint)
    checkpoint.weight_files()
    if not checkpoint.tokenizer_files():
        raise ParamsError(
            f"{checkpoint.key}: {checkpoint.label} has no tokenizer.",
            "Save the weights and their own tokenizer into one folder models/source/NAME, and name that.",
        )
    return checkpoint


def copy(pretrained: Pretrained, names: Sequence[str], target: Path) -> PretrainedSource:
    """Fetch files and copy them.

    A copy that differs from what the hub lists is refused.
    """
    folder = pretrained.fetch(names)
    target.mkdir()
    for name in names:
        (target / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(folder / name, target / name)

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
    warn_of_learning_rate("base", params)
    with replace_directory(BASE) as folder:
        source = bring(params, folder)
        write_record(folder / BASE_RECORD.name, source)
    if source.checkpoint is None:
        say("base: no checkpoint: the model is trained from scratch")
    else:
        say(f"base: {source.checkpoint.description}")


if __name__ == "__main__":
    run_stage("base", main, partial(write_provenance, "base", ("huggingface_hub",)))
