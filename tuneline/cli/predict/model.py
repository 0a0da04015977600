"""The deployed model: an exported ONNX model with its tokenizer, from texts to predictions."""

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tuneline.batches import TokenizedRows
from tuneline.curves import probabilities
from tuneline.errors import StageError
from tuneline.onnx.session import OnnxClassifier, logits_of
from tuneline.records.export import EXPORT_RECORD, UsageRecord

NO_MODEL = "`dvc repro` exports one; --model names another folder or file."


@dataclass(frozen=True)
class DeployedModel:
    """An exported model that takes texts.

    Attributes:
        text_columns: The text columns of the training data, in order.
        labels: Class names in the order of the logits; ``None`` for a regression.
        max_length: Tokens per row; longer rows are truncated.
        pad_token_id: Token id of the padding.
        classifier: The ONNX model.
        tokenizer: Its tokenizer, which truncates to ``max_length``.
    """

    text_columns: tuple[str, ...]
    labels: tuple[str, ...] | None
    max_length: int
    pad_token_id: int
    classifier: OnnxClassifier
    tokenizer: Tokenizer

    @classmethod
    def load(cls, model: Path, precision: str | None, threads: int | None) -> "DeployedModel":
        """Load a model.

        Args:
            model: A folder that the stage ``compare`` published, or one ONNX file in it.
            precision: Precision of the model in a folder; ``None`` for fp32.
            threads: Threads per operator; ``None`` for all cores.

        Raises:
            StageError: The model is missing, was not exported by this project, or has the wrong tokenizer.
        """
        path = model_file(model, precision)
        classifier = OnnxClassifier(path, threads)
        metadata = classifier.metadata
        if "text_columns" not in metadata:
            raise StageError(f"{path} was not exported by this project: its metadata has no text columns.", NO_MODEL)
        labels = json.loads(metadata["labels"])
        max_length = int(metadata["max_length"])
        return cls(
            tuple(json.loads(metadata["text_columns"])),
            None if labels is None else tuple(labels),
            max_length,
            int(metadata["pad_token_id"]),
            classifier,
            _tokenizer(path.parent, json.loads(metadata["tokenizer"]), max_length),
        )

    def encode(self, texts: Sequence[tuple[str, ...]]) -> TokenizedRows:
        """Tokenize rows of one or two texts, exactly as the stage ``tokenize`` does."""
        rows = list(texts) if len(self.text_columns) > 1 else [text for (text,) in texts]
        encodings = self.tokenizer.encode_batch_fast(rows)
        lengths = np.fromiter(map(len, encodings), dtype=np.int64, count=len(encodings))
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
        total = int(offsets[-1])
        values = {"input_ids": _flat((encoding.ids for encoding in encodings), total)}
        if "attention_mask" in self.classifier.inputs:
            values["attention_mask"] = np.ones(total, dtype=np.int64)
        if "token_type_ids" in self.classifier.inputs:
            values["token_type_ids"] = _flat((encoding.type_ids for encoding in encodings), total)
        return TokenizedRows(values, offsets)

    def predict(self, texts: Sequence[tuple[str, ...]], batch_size: int) -> NDArray[np.float64]:
        """Predict rows of one or two texts.

        Args:
            texts: The texts of each row.
            batch_size: Rows per forward pass.

        Returns:
            Probabilities of the classes, or the predicted number; shape ``(rows, outputs)``.
        """
        logits = logits_of(self.classifier, self.encode(texts), self.pad_token_id, batch_size)
        return logits.astype(np.float64) if self.labels is None else probabilities(logits)


def _flat(lists: Any, count: int) -> NDArray[np.int64]:
    return np.fromiter(itertools.chain.from_iterable(lists), dtype=np.int64, count=count)


def model_file(model: Path, precision: str | None) -> Path:
    """Return the ONNX file of a model.

    Args:
        model: A folder that the stage ``compare`` published, or one ONNX file in it.
        precision: Precision of the model in a folder; ``None`` for fp32.

    Raises:
        StageError: There is none.
    """
    return model if model.is_file() else _published(model, precision or "fp32")


def _published(folder: Path, precision: str) -> Path:
    path = folder / EXPORT_RECORD
    if not path.exists():
        raise StageError(f"{folder} has no exported model.", NO_MODEL)
    models = UsageRecord.read(path).models
    if precision not in models:
        published = ", ".join(models)
        raise StageError(f"{folder} has no model in {precision}; it has {published}.", "Add it to export.precisions and run `dvc repro`.")
    path = folder / models[precision].file
    if not path.is_file():
        raise StageError(f"{path} is missing.", "`dvc checkout` restores it.")
    return path


def _tokenizer(folder: Path, metadata: dict[str, str], max_length: int) -> Tokenizer:
    path = folder / metadata["file"]
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise StageError(f"{path} is missing: a model needs its tokenizer beside it.", "Copy it from the folder of the model.") from None
    if hashlib.sha256(content).hexdigest() != metadata["sha256"]:
        raise StageError(f"{path} is not the tokenizer that this model was trained with.", "Copy the one from the folder of the model.")
    tokenizer = Tokenizer.from_buffer(content)
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length, strategy="longest_first", direction=metadata["truncation_side"])
    return tokenizer
