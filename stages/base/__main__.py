"""Bring the pretrained model into the project, so that no later stage needs a network and changed weights train again.

Reads: ``model.checkpoint`` and ``tokenize.tokenizer``: a repository of the hub at the commit of its revision, or a folder under
``models/source/``.
Checks: the model type, that the weights are complete safetensors, and that the tokenizer has the vocabulary of the weights.
Writes: ``models/base/source.json`` (names, commits, licences, SHA-256), ``models/base/model/`` and ``models/base/tokenizer/``; only the
first when a model is trained from scratch, with a tokenizer trained on the train split.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from stages.base.checks import check_vocabulary, check_weights
from tuneline.errors import StageError
from tuneline.files import replace_directory
from tuneline.files.hashes import file_hash
from tuneline.launch import check_launch
from tuneline.model_types import check_model_type
from tuneline.params import Params
from tuneline.params.loading import load_params
from tuneline.params.warnings import print_warnings
from tuneline.paths import BASE, BASE_MODEL, BASE_RECORD, BASE_TOKENIZER
from tuneline.pretrained import COMMIT, CONFIG, Pretrained, find
from tuneline.records.source import BaseSource, PretrainedSource
from tuneline.stage import run_stage
from tuneline.terminal import say


def bring(params: Params, target: Path) -> BaseSource:
    """Fetch and check what the parameters name. The weights come last, because they take longest.

    Args:
        params: All parameters.
        target: An empty folder.

    Raises:
        StageError: A repository or folder cannot be read, or cannot be used.
    """
    checkpoint = find_checkpoint(params)
    tokenizer = find_tokenizer(params, checkpoint)
    return BaseSource(
        tokenizer=bring_tokenizer(tokenizer, checkpoint, target / BASE_TOKENIZER.name) if tokenizer else None,
        checkpoint=bring_checkpoint(checkpoint, target / BASE_MODEL.name) if checkpoint else None,
    )


def find_checkpoint(params: Params) -> Pretrained | None:
    """Find the checkpoint; ``None`` if the model is trained from scratch.

    Raises:
        StageError: It is of a type that cannot be trained, or has no safetensors.
    """
    if params.model.checkpoint is None:
        return None
    checkpoint = announce(find(params.model.checkpoint, params.model.revision), params.model.revision)
    check_model_type(checkpoint)
    checkpoint.weight_files()
    return checkpoint


def find_tokenizer(params: Params, checkpoint: Pretrained | None) -> Pretrained | None:
    """Find the tokenizer: that of the checkpoint unless another one is named; ``None`` if it is trained on the train split.

    Raises:
        StageError: Neither names one: the checkpoint has no tokenizer.
    """
    name, revision = params.tokenize.tokenizer, params.tokenize.revision
    if name is not None and (checkpoint is None or name != checkpoint.name):
        checkpoint = announce(find(name, revision, "tokenize.tokenizer"), revision)
    if checkpoint is not None and not checkpoint.tokenizer_files():
        raise StageError(
            f"{checkpoint.key}: {checkpoint.label} has no tokenizer.", "Name the one that the model was trained with: tokenize.tokenizer."
        )
    return checkpoint


def announce(pretrained: Pretrained, revision: str | None) -> Pretrained:
    """Print the commit of a branch or tag, because nothing looks at the branch again until the stage is forced."""
    if pretrained.commit is not None and not (revision and COMMIT.fullmatch(revision)):
        say(f"base: {pretrained.name}: {revision or 'main'} is commit {pretrained.commit} now; `dvc repro --force base` looks again")
    return pretrained


def bring_tokenizer(tokenizer: Pretrained, checkpoint: Pretrained | None, target: Path) -> PretrainedSource:
    """Copy a tokenizer, and check it against the checkpoint."""
    files = [*tokenizer.tokenizer_files(), *([CONFIG] if CONFIG in tokenizer.files else [])]
    source = copy(tokenizer, files, target)
    check_vocabulary(tokenizer, target, checkpoint)
    return source


def bring_checkpoint(checkpoint: Pretrained, target: Path) -> PretrainedSource:
    """Copy configuration and weights, and check that the weights are complete."""
    source = copy(checkpoint, [CONFIG, *checkpoint.weight_files()], target)
    check_weights(checkpoint, target)
    return source


def copy(pretrained: Pretrained, names: Sequence[str], target: Path) -> PretrainedSource:
    """Fetch files and copy them.

    Raises:
        StageError: A copy differs from what the hub lists, or does not fit on the disk.
    """
    folder = pretrained.fetch(names)
    target.mkdir()
    try:
        for name in names:
            shutil.copyfile(folder / name, target / name)
    except OSError as error:
        raise StageError(
            f"{pretrained.key}: {pretrained.label} cannot be copied from {folder} to {BASE}: {error.strerror}.",
            f"It needs {sum(pretrained.files[name] for name in names) / 2**20:,.0f} MB there.",
        ) from None
    sha256 = {name: file_hash(target / name) for name in names}
    for name, expected in pretrained.sha256.items():
        if sha256.get(name, expected) != expected:
            raise pretrained.damaged(name, "its SHA-256 is not the one that the hub lists")
    return PretrainedSource(name=pretrained.name, commit=pretrained.commit, license=pretrained.license(), sha256=sha256)


def main() -> None:
    """Read the parameters, and write ``models/base/``."""
    params = load_params()
    check_launch(params.train)
    print_warnings("base", params)
    with replace_directory(BASE) as folder:
        source = bring(params, folder)
        source.write(folder / BASE_RECORD.name)
    say(f"base: {source.checkpoint.description if source.checkpoint else 'no checkpoint: the model is trained from scratch'}")


if __name__ == "__main__":
    run_stage("base", main, libraries=("huggingface_hub",))
