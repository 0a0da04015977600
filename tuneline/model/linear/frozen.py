"""The frozen checkpoint: its pooled vectors with a linear model on top, as it was before the training.

A text is encoded alone, also in a pair, because a checkpoint was not trained on what joins two texts. Its
vector is that which the checkpoint was trained with (``pooling_of``); of a text in several windows, the mean
of their vectors. Rows are limited, so that time and memory are bounded for any data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.core.runtime.errors import StageError
from tuneline.core.runtime.terminal import phase
from tuneline.core.stage.tables import LABELS, SplitReader
from tuneline.core.stage.texts import read_sample
from tuneline.model.linear.linear_model import LinearModel, Vectors, cosine, most_rows, pair_features
from tuneline.model.tasks import Task
from tuneline.model.tasks.columns import array_of, read_task
from tuneline.model.tokens.architectures import Pooling, pooling_of
from tuneline.model.tokens.encoded_columns import Encoder, tokenized_rows
from tuneline.model.tokens.long_text import Answer, LongText
from tuneline.model.tokens.tokenizer import load_tokenizer, long_text_beside

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

BATCH_SIZE = 32
TEXTS_AT_A_TIME = 2_000


@dataclass(frozen=True)
class FrozenEncoder:
    """A checkpoint in evaluation mode on its device: the accelerator if there is one, else the CPU."""

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerFast"
    device: "torch.device"
    long_text: LongText
    pooling: Pooling

    @classmethod
    def load(cls, weights: Path, tokenizer: Path) -> Self:
        """Load a checkpoint: safetensors only, no remote code."""
        import torch
        from accelerate import PartialState
        from transformers import AutoModel
        from transformers.utils import logging

        from tuneline.core.stage.machine import threads
        from tuneline.model.linear.pooled_classifier import start_threads

        start_threads(threads())  # torch does not know the quota of a container
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        logging.set_verbosity_error()  # type: ignore[no-untyped-call] # weights of a head are not used
        options = {"local_files_only": True, "trust_remote_code": False}
        try:
            model = AutoModel.from_pretrained(weights, use_safetensors=True, dtype=torch.float32, **options)
        except (OSError, ValueError) as error:
            raise StageError(
                f"{weights} cannot be loaded: {str(error).splitlines()[0]}",
                "Fetch it again: `dvc repro -f base`.",
            ) from None
        device = PartialState().device
        return cls(
            model.to(device).eval(),
            load_tokenizer(tokenizer, str(tokenizer)),
            device,
            long_text_beside(tokenizer),
            pooling_of(weights),
        )

    @property
    def width(self) -> int:
        """Size of a vector."""
        return int(self.model.config.hidden_size)

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return the vector of each text.

        Returns:
            Vectors of shape ``(rows, width)``.
        """
        # Without a text, there is one part of no rows: the vectors have their width all the same.
        parts = []
        for start in range(0, max(len(texts), 1), TEXTS_AT_A_TIME):
            parts.append(self._vectors(texts[start : start + TEXTS_AT_A_TIME]))
        return np.concatenate(parts)

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        from tuneline.model.linear.pooled_classifier import pooled
        from tuneline.model.tokens.batches import compute_outputs

        # tokens
        max_length = self.tokenizer.model_max_length
        encoder = Encoder(self.tokenizer, max_length, pairs=False, long_text=self.long_text)
        # a vector is a mean, also where the maximum of the logits of a trained model is the answer
        answer: Answer | None = "mean" if self.long_text.windows is not None else None
        rows = tokenized_rows(encoder.columns(encoder.encode(list(texts))), answer)

        # vectors
        vectors = np.empty((len(texts), self.width), dtype=np.float32)
        return compute_outputs(
            lambda inputs: pooled(self.model, self.pooling, **inputs),
            rows,
            vectors,
            pad_token_id=self.tokenizer.pad_token_id,
            device=self.device,
            batch_size=BATCH_SIZE,
        )


def features(columns: Sequence[Vectors]) -> Vectors:
    """Return the features of rows: the vector of one text, or ``pair_features`` of two texts."""
    if len(columns) == 1:
        return columns[0]
    return np.hstack(pair_features(*columns))


@dataclass(frozen=True)
class FrozenBaselines:
    """The models on frozen vectors.

    Attributes:
        models: Models by name: ``frozen``, and ``cosine`` for pairs, which sees only the cosine of the two
            vectors.
    """

    encoder: FrozenEncoder
    models: dict[str, LinearModel]

    @classmethod
    def fit(cls, encoder: FrozenEncoder, train: pa.Table, validation: pa.Table, labels: Task) -> Self:
        """Fit the models on rows as ``tuneline.core.stage.texts.read_sample`` returns them."""
        phase("frozen vectors of train")
        train_inputs = encoder_inputs(encoder, _texts(train))
        phase("frozen vectors of validation")
        validation_inputs = encoder_inputs(encoder, _texts(validation))

        phase("linear models of frozen vectors")
        train_labels = array_of(labels, train[LABELS])
        validation_labels = array_of(labels, validation[LABELS])
        models = {}
        for name, train_features in train_inputs.items():
            # The features of a pair end with its cosine, which is weighted.
            cosine_last = name == "frozen" and "cosine" in train_inputs
            models[name] = LinearModel.fit(
                (train_features, train_labels),
                (validation_inputs[name], validation_labels),
                labels,
                cosine_last,
            )
        return cls(encoder, models)

    def predict(self, texts: Sequence[Sequence[str]]) -> dict[str, NDArray[Any]]:
        """Predict a batch of texts, one list for each column."""
        inputs = encoder_inputs(self.encoder, texts)
        return {name: self.models[name].predict(values) for name, values in inputs.items()}


def _texts(rows: pa.Table) -> list[list[str]]:
    """Return the texts of rows, one list for each column."""
    return [rows[column].to_pylist() for column in rows.column_names if column != LABELS]


def encoder_inputs(encoder: FrozenEncoder, texts: Sequence[Sequence[str]]) -> dict[str, Vectors]:
    """Return the features of each model, by its name; shape ``(rows, features)``."""
    columns = [encoder.vectors(column) for column in texts]
    inputs = {"frozen": features(columns)}
    if len(columns) == 2:
        inputs["cosine"] = cosine(*columns)
    return inputs


def fit_frozen_baselines(
    encoder: FrozenEncoder, splits: tuple[SplitReader, SplitReader], columns: Sequence[str], seed: int
) -> FrozenBaselines:
    """Fit the models to the splits train and validation, in this order.

    At most as many rows of each are drawn as memory allows.
    """
    # sample
    train_split, validation_split = splits
    labels = read_task(train_split.schema)
    max_rows = most_rows(encoder.width, len(columns) == 2)
    train = read_sample(train_split, columns, labels.outputs, seed, max_rows=max_rows)
    validation = read_sample(validation_split, columns, labels.outputs, seed, max_rows=max_rows)
    return FrozenBaselines.fit(encoder, train, validation, labels)
