"""What a run learns from, checked before anything expensive starts."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase

from tuneline.architectures import token_limit
from tuneline.batches import TokenizedSplit
from tuneline.errors import DataError, ParamsError
from tuneline.files.schemas import UNLABELLED, LabelSchema
from tuneline.metrics import metrics_for, task_of
from tuneline.params import TrainParams
from tuneline.paths import TOKENIZED, TOKENIZER, split_file
from tuneline.stage import require


@dataclass(frozen=True)
class Inputs:
    """The two splits, and the tokenizer that made them."""

    train: TokenizedSplit
    validation: TokenizedSplit
    tokenizer: PreTrainedTokenizerBase

    @property
    def labels(self) -> LabelSchema:
        """What the labels mean."""
        return self.train.label_schema

    @property
    def pad_token_id(self) -> int:
        """Id that fills short rows up; 0 where the tokenizer has none (such places are masked)."""
        return int(self.tokenizer.pad_token_id or 0)


def data_files() -> Iterator[Path]:
    """The files that ``read_inputs`` reads."""
    yield from (split_file(TOKENIZED, split) for split in ("train", "validation"))
    yield from sorted(path for path in TOKENIZER.rglob("*") if path.is_file())


def read_inputs(params: TrainParams) -> Inputs:
    """Reads the splits.

    Raises:
        DataError: A split is empty or has no labels.
        ParamsError: The metric or the class weights do not belong to these labels.
    """
    splits = {split: TokenizedSplit.read(require(split_file(TOKENIZED, split), made_by="tokenize")) for split in ("train", "validation")}
    for name, split in splits.items():
        check_split(name, split)
    check_metric(params, splits["train"].label_schema)
    tokenizer = AutoTokenizer.from_pretrained(require(TOKENIZER, made_by="tokenize"), trust_remote_code=False)
    return Inputs(splits["train"], splits["validation"], tokenizer)


def check_split(name: str, split: TokenizedSplit) -> None:
    """Refuses a split that cannot be learned from or chosen by.

    Raises:
        DataError: It is empty or has no labels.
    """
    path = split_file(TOKENIZED, name)
    if not len(split):
        raise DataError(f"{path} has no rows.", f"Look at data.splits.{name}.")
    if not split.label_schema.is_regression and (split.labels == UNLABELLED).any():
        row = int(np.argmax(split.labels == UNLABELLED))
        raise DataError(f"{path}, row {row}: no label.", f"Point data.splits.{name} to a split that is labelled.")


def check_metric(params: TrainParams, labels: LabelSchema) -> None:
    """Holds what the parameters say of the labels against the labels.

    Raises:
        ParamsError: Something is of the other task, or names a class that is not there.
    """
    known = [metric.name for metric in metrics_for(task_of(labels)) if metric.validated]
    task = "a regression" if labels.is_regression else "a classification"
    if params.metric not in known:
        raise ParamsError(f"train.metric: {params.metric!r} is no metric of {task}.", f"Choose one of {', '.join(known)}.")
    if labels.is_regression and (params.class_weights is not None or params.label_smoothing):
        key = "class_weights" if params.class_weights is not None else "label_smoothing"
        raise ParamsError(f"train.{key}: a regression has no classes.")
    if isinstance(params.class_weights, dict) and (unknown := set(params.class_weights) - set(labels.names or ())):
        raise ParamsError(f"train.class_weights: no class {min(unknown)!r}.", f"There are {', '.join(labels.names or ())}.")


def check_fit(inputs: Inputs, config: PretrainedConfig) -> None:
    """Holds the data against the model; an index out of range would be a riddle on a GPU.

    Raises:
        ParamsError: A row is too long for the model, or holds an id that it has no embedding for.
    """
    for split in (inputs.train, inputs.validation):
        longest, highest = int(split.lengths.max()), int(split.values["input_ids"].max())
        positions = getattr(config, "max_position_embeddings", None)  # GPT-2's configuration stores it by another name
        limit = token_limit({**config.to_dict(), "max_position_embeddings": positions})
        if limit is not None and longest > limit:
            raise ParamsError(
                f"model: it has {limit} positions, and the data has a row of {longest} tokens.", f"Set tokenize.max_length to {limit}."
            )
        if highest >= config.vocab_size:
            raise ParamsError(
                f"model: its vocabulary ends at {config.vocab_size - 1}, and the data has the id {highest}.",
                "Set tokenize.tokenizer to the model's own.",
            )
