"""The frozen checkpoint: its mean-pooled vectors with a linear model on top, as it was before the training.

A text is encoded alone, also in a pair, because a checkpoint was not trained on what joins two texts. Its
vector is the mean of the last hidden states over its tokens (Reimers & Gurevych 2019). Rows are limited, so
that time and memory are bounded for any data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.analysis.baselines import read_sample
from tuneline.core.errors import StageError
from tuneline.core.tables import LABELS, SplitReader
from tuneline.core.terminal import phase
from tuneline.model.batches import TokenizedRows, length_sorted_batches
from tuneline.model.encoding import Encoder
from tuneline.model.linear import LinearModel, Vectors, cosine, most_rows, pair_features
from tuneline.tasks import Task, read_task

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

    @classmethod
    def load(cls, weights: Path, tokenizer: Path) -> Self:
        """Load a checkpoint: safetensors only, no remote code."""
        import torch
        from accelerate import PartialState
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging

        from tuneline.core.machine import threads

        torch.set_num_threads(threads())  # torch does not know the quota of a container
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
        words = cast("PreTrainedTokenizerFast", AutoTokenizer.from_pretrained(tokenizer, **options))
        return cls(model.to(device).eval(), words, device)

    @property
    def width(self) -> int:
        """Size of a vector."""
        return int(self.model.config.hidden_size)

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return the mean of the last hidden states of each text, over its tokens; shape ``(rows, width)``."""
        parts = [
            self._vectors(texts[start : start + TEXTS_AT_A_TIME])
            for start in range(0, max(len(texts), 1), TEXTS_AT_A_TIME)
        ]
        return np.concatenate(parts)

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        import torch

        from tuneline.model.frozen_classifier import mean_pooled

        encoder = Encoder(self.tokenizer, self.tokenizer.model_max_length, pairs=False)
        columns = encoder.columns(encoder.encode(list(texts)))
        values = {name: column.values.to_numpy() for name, column in columns.items()}
        rows = TokenizedRows(values, columns["input_ids"].offsets.to_numpy().astype(np.int64))
        vectors = np.empty((len(texts), self.width), dtype=np.float32)
        with torch.inference_mode():
            for batch in length_sorted_batches(rows.lengths, BATCH_SIZE):
                padded = rows.pad(batch, self.tokenizer.pad_token_id)
                inputs = {name: torch.from_numpy(numbers).to(self.device) for name, numbers in padded.items()}
                vectors[batch] = mean_pooled(self.model, **inputs).float().cpu().numpy()
        return vectors


def features(columns: Sequence[Vectors]) -> Vectors:
    """Return the features of rows of one text, its vector; or of two, as ``pair_features`` has them."""
    return columns[0] if len(columns) == 1 else np.hstack(pair_features(*columns))


@dataclass(frozen=True)
class FrozenBaselines:
    """The models on frozen vectors by name: ``frozen``, and ``cosine`` for pairs, which sees the cosine of the two vectors alone."""

    encoder: FrozenEncoder
    models: dict[str, LinearModel]

    @classmethod
    def fit(cls, encoder: FrozenEncoder, train: pa.Table, validation: pa.Table, labels: Task) -> Self:
        """Fit them on rows as ``tuneline.analysis.baselines.read_sample`` returns them."""
        inputs = []
        for name, rows in (("train", train), ("validation", validation)):
            phase(f"frozen vectors of {name}")
            inputs.append(
                encoder_inputs(
                    encoder, [rows[column].to_pylist() for column in rows.column_names if column != LABELS]
                )
            )
        phase("linear models of frozen vectors")
        known, unseen = inputs
        answers, others = (rows[LABELS].to_numpy() for rows in (train, validation))
        models = {}
        for name in known:
            cosine_last = name == "frozen" and "cosine" in known
            models[name] = LinearModel.fit(
                (known[name], answers), (unseen[name], others), labels, cosine_last
            )
        return cls(encoder, models)

    def predict(self, texts: Sequence[Sequence[str]]) -> dict[str, NDArray[Any]]:
        """Predict a batch of texts, one list for each column."""
        return {
            name: self.models[name].predict(values)
            for name, values in encoder_inputs(self.encoder, texts).items()
        }


def encoder_inputs(encoder: FrozenEncoder, texts: Sequence[Sequence[str]]) -> dict[str, Vectors]:
    """Return the features of each model, by its name; shape ``(rows, features)``."""
    columns = [encoder.vectors(column) for column in texts]
    return {"frozen": features(columns), **({"cosine": cosine(*columns)} if len(columns) == 2 else {})}


def fit_frozen_baselines(
    encoder: FrozenEncoder, splits: tuple[SplitReader, SplitReader], columns: Sequence[str], seed: int
) -> FrozenBaselines:
    """Fit the models to the splits train and validation, in this order, of which at most so many rows are drawn as memory allows."""
    most = most_rows(encoder.width, len(columns) == 2)
    labels = read_task(splits[0].schema)
    train, validation = (read_sample(split, columns, labels.outputs, seed, max_rows=most) for split in splits)
    return FrozenBaselines.fit(encoder, train, validation, labels)
