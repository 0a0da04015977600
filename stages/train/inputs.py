"""Training data: the tokenized splits and their tokenizer, checked before anything expensive starts."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase

from tuneline.architectures import token_limit
from tuneline.batches import TokenizedSplit
from tuneline.errors import DataError, ParamsError
from tuneline.files.schemas import UNLABELLED, LabelSchema
from tuneline.metrics import metrics_for
from tuneline.params import TrainParams
from tuneline.paths import TOKENIZED, TOKENIZER, split_file
from tuneline.scores import task_of
from tuneline.stage import require


@dataclass(frozen=True)
class Inputs:
    """The two splits, and the tokenizer that made them."""

    train: TokenizedSplit
    validation: TokenizedSplit
    tokenizer: PreTrainedTokenizerBase

    @property
    def labels(self) -> LabelSchema:
        """Label schema of both splits."""
        return self.train.label_schema

    @property
    def pad_token_id(self) -> int:
        """Id that pads short rows; 0 if the tokenizer has none, because padding is masked anyway."""
        return int(self.tokenizer.pad_token_id or 0)


def data_files() -> Iterator[Path]:
    """Yield the files that ``read_inputs`` reads."""
    yield from (split_file(TOKENIZED, split) for split in ("train", "validation"))
    yield from sorted(path for path in TOKENIZER.rglob("*") if path.is_file())


def read_inputs(params: TrainParams) -> Inputs:
    """Read and check the splits and the tokenizer.

    Raises:
        DataError: A split is empty or has rows without a label.
        ParamsError: The metric or the class weights do not fit the labels.
    """
    splits = {split: TokenizedSplit.read(require(split_file(TOKENIZED, split), made_by="tokenize")) for split in ("train", "validation")}
    for name, split in splits.items():
        check_split(name, split)
    check_label_params(params, splits["train"].label_schema)
    tokenizer = AutoTokenizer.from_pretrained(require(TOKENIZER, made_by="tokenize"), trust_remote_code=False)
    return Inputs(splits["train"], splits["validation"], tokenizer)


def check_split(name: str, split: TokenizedSplit) -> None:
    """Refuse a split without rows or with unlabelled rows.

    Raises:
        DataError: The split is empty, or a row has no label.
    """
    path = split_file(TOKENIZED, name)
    if not len(split):
        raise DataError(f"{path} has no rows.", f"Check data.splits.{name}.")
    if not split.label_schema.is_regression and (split.labels == UNLABELLED).any():
        row = int(np.argmax(split.labels == UNLABELLED))
        raise DataError(f"{path}, row {row}: no label.", f"Set data.splits.{name} to a labelled split.")


def check_label_params(params: TrainParams, labels: LabelSchema) -> None:
    """Check that metric, class weights and label smoothing fit the labels.

    Raises:
        ParamsError: A parameter is for the other kind of task, or names an unknown class.
    """
    known = [metric.name for metric in metrics_for(task_of(labels)) if metric.validated]
    task = "regression" if labels.is_regression else "classification"
    if params.metric not in known:
        raise ParamsError(f"train.metric: {params.metric!r} is not a metric of {task}.", f"Choose one of {', '.join(known)}.")
    if labels.is_regression and (params.class_weights is not None or params.label_smoothing):
        key = "class_weights" if params.class_weights is not None else "label_smoothing"
        raise ParamsError(f"train.{key}: the labels are numbers, and regression has no classes.", f"Remove train.{key}.")
    if isinstance(params.class_weights, dict) and (unknown := set(params.class_weights) - set(labels.names or ())):
        raise ParamsError(f"train.class_weights: {min(unknown)!r} is not a class.", f"The classes are {', '.join(labels.names or ())}.")


def check_fit(inputs: Inputs, config: PretrainedConfig) -> None:
    """Check that the data fit the model: on a GPU, an index out of range ends in an unclear CUDA error.

    Raises:
        ParamsError: A row is too long for the model, or holds an id outside of its vocabulary.
    """
    for split in (inputs.train, inputs.validation):
        longest, highest = int(split.lengths.max()), int(split.values["input_ids"].max())
        positions = getattr(config, "max_position_embeddings", None)  # GPT-2's configuration stores it by another name
        limit = token_limit({**config.to_dict(), "max_position_embeddings": positions})
        if limit is not None and longest > limit:
            raise ParamsError(f"model: it has {limit} positions, but a row has {longest} tokens.", f"Set tokenize.max_length to {limit}.")
        if highest >= config.vocab_size:
            raise ParamsError(
                f"model: its highest token id is {config.vocab_size - 1}, but the data contain the id {highest}.",
                "Set tokenize.tokenizer to the tokenizer of the model.",
            )
