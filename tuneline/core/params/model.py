"""Section ``model``: the checkpoint to fine-tune, or the configuration of a new model.

And the form of the names of pretrained models, which the section ``tokenize`` checks, too.
"""

from pathlib import PurePosixPath
from typing import Any, Literal, Self

from pydantic import field_validator, model_validator

from tuneline.core.params.section import Section
from tuneline.core.paths import BASE_SOURCE

STRUCTURE = frozenset(
    {
        "model_type", "vocab_size", "type_vocab_size", "max_position_embeddings", "embedding_size",
        "hidden_size", "dim", "d_model", "intermediate_size", "hidden_dim", "num_hidden_layers", "n_layers",
        "num_attention_heads", "n_heads", "num_key_value_heads", "head_dim",
    }
)  # fmt: skip
"""Keys of a configuration that a checkpoint determines, because its weights have these sizes."""

_END_TOKENS = (
    "its classifier reads the end token of its decoder, and refuses batches whose rows have different numbers"
    " of them"
)
UNSUPPORTED = {
    "mt5": _END_TOKENS,
    "t5": _END_TOKENS,
    "umt5": _END_TOKENS,
    "xlnet": (
        "its classifier reads the last position, which is padding in all rows but the longest of a batch"
    ),
}
"""Model types that transformers has a classifier for, and that cannot be trained here; with the reason."""
ENCODERS = "an encoder, such as BERT, RoBERTa, DeBERTa, ELECTRA or ModernBERT"


def is_folder(name: str) -> bool:
    """Return True if a pretrained model is named by a folder in the project, not by its name on the hub."""
    return PurePosixPath(name).parts[: len(BASE_SOURCE.parts)] == BASE_SOURCE.parts


def invalid_name(name: str, revision: str | None = None) -> str | None:
    """Return what is wrong with the name of a pretrained model; ``None`` if nothing is.

    It is ``owner/name`` or ``name`` on the hub, or a folder ``models/source/NAME``.
    """
    path = PurePosixPath(name)
    if is_folder(name):
        if len(path.parts) != len(BASE_SOURCE.parts) + 1 or ".." in path.parts:
            return f"{name!r} is not a folder directly in {BASE_SOURCE}/, such as {BASE_SOURCE}/my-model"
        if revision is not None:
            return f"{name!r} is a folder, which has no revisions; set the revision to null"
    elif not name.strip() or name[0] in "./~" or name.count("/") > 1 or "\\" in name:
        folder = f"{BASE_SOURCE}/{path.name or 'NAME'}"
        return (
            f"{name!r} is neither a name on the hub nor a folder in {BASE_SOURCE}/; copy the folder to"
            f" {folder} and write that, because DVC detects changes only there"
        )

    if path.as_posix() != name:
        return f"{name!r} should be written {path.as_posix()!r}"
    return None


class ModelParams(Section):
    """Section ``model``: the checkpoint to fine-tune, or the configuration of a new model."""

    checkpoint: str | None = None
    """Name on the Hugging Face Hub, or a folder ``models/source/NAME``.

    ``null``: train from scratch, with ``config``.
    """
    revision: str | None = None
    """Commit, tag or branch of the checkpoint on the hub.

    ``null``: main. ``models/base/source.json`` records the commit.
    """
    config: dict[str, Any] = {}
    """Keys of the transformers configuration, of which ``model_type`` selects the class.

    Vocabulary size, label names and padding id
    come from the data. With a checkpoint: overrides of its configuration, such as dropout. ``null``: none."""

    head: Literal["frozen", "auto"] | None = None
    """``frozen``: the checkpoint stays as it is, and a linear model is fitted to its mean-pooled vectors in
    seconds (docs/fine-tune.md). Of ``train``, only ``launch``, ``seed`` and
    ``metric`` then have an effect. ``null``: train the whole model. ``auto``: both, and the
    validation split decides which is published (tuneline/training/choice.py).
    """

    @field_validator("config", mode="before")
    @classmethod
    def _no_overrides(cls, value: Any) -> Any:
        # Hydra cannot empty a mapping: `-S model.config={}` changes nothing.
        return {} if value is None else value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.checkpoint is None:
            if self.revision is not None:
                raise ValueError("revision: there is no model.checkpoint; set it to null")
            if self.head is not None:
                raise ValueError(
                    "head: there is no model.checkpoint whose vectors a linear model could use; set"
                    " model.head to null"
                )
            if "model_type" not in self.config:
                raise ValueError("config: without a checkpoint it needs 'model_type', for example 'bert'")
            reason = UNSUPPORTED.get(self.config["model_type"])
            if reason is not None:
                raise ValueError(
                    f"config.model_type: {self.config['model_type']!r} cannot be trained: {reason}; choose"
                    f" {ENCODERS}"
                )
            return self

        problem = invalid_name(self.checkpoint, self.revision)
        if problem is not None:
            raise ValueError(f"checkpoint: {problem}")
        structure = sorted(STRUCTURE & self.config.keys())
        if structure:
            raise ValueError(
                f"config: {', '.join(structure)}: the weights of model.checkpoint determine this; a new model"
                " would be described here. Set model.config to null (-S model.config=null), or to other keys"
                " that you override; or model.checkpoint to null, to train from scratch"
            )
        return self
