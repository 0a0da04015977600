"""The exported model with its tokenizer: from texts to predictions."""

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
from tuneline.errors import StageError
from tuneline.onnx.session import OnnxClassifier, logits_of

NO_MODEL = "`dvc repro` makes it; --model names another folder or file."


@dataclass(frozen=True)
class ServedModel:
    """A model that takes texts.

    Attributes:
        text_columns: The columns that it was trained on, in their order.
        labels: Class names in the order of the logits; ``None`` for a regression.
        max_length: Tokens of a row that it reads.
        pad_token_id: Of its tokenizer.
        classifier: The ONNX model.
        tokenizer: Set to cut at ``max_length``.
    """

    text_columns: tuple[str, ...]
    labels: tuple[str, ...] | None
    max_length: int
    pad_token_id: int
    classifier: OnnxClassifier
    tokenizer: Tokenizer

    @classmethod
    def load(cls, place: Path, precision: str | None, threads: int | None) -> "ServedModel":
        """Loads a model.

        Args:
            place: A folder that ``compare`` published, or one model in it.
            precision: Which of a folder's models; ``None`` for fp32.
            threads: Inside one operator; ``None`` for all cores.

        Raises:
            StageError: It is not there, or is none of this project's, or its tokenizer is another.
        """
        path = place if place.is_file() else _model_file(place, precision or "fp32")
        classifier = OnnxClassifier(path, threads)
        about = classifier.metadata
        if "text_columns" not in about:
            raise StageError(f"{path} does not say how it is used: it was not exported by this project.", NO_MODEL)
        labels = json.loads(about["labels"])
        max_length = int(about["max_length"])
        return cls(
            tuple(json.loads(about["text_columns"])),
            None if labels is None else tuple(labels),
            max_length,
            int(about["pad_token_id"]),
            classifier,
            _tokenizer(path.parent, json.loads(about["tokenizer"]), max_length),
        )

    def encode(self, texts: Sequence[tuple[str, ...]]) -> TokenizedRows:
        """Turns rows of one or two texts into ids, as the stage ``tokenize`` does."""
        given = list(texts) if len(self.text_columns) > 1 else [text for (text,) in texts]
        encodings = self.tokenizer.encode_batch_fast(given)
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
        """Probabilities of the classes, or the number, for each row.

        Returns:
            Shape ``[rows, outputs]``.
        """
        logits = logits_of(self.classifier, self.encode(texts), self.pad_token_id, batch_size).astype(np.float64)
        return logits if self.labels is None else softmax(logits)


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Softmax of each row."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _flat(lists: Any, count: int) -> NDArray[np.int64]:
    return np.fromiter(itertools.chain.from_iterable(lists), dtype=np.int64, count=count)


def _model_file(folder: Path, precision: str) -> Path:
    try:
        models = json.loads((folder / "export.json").read_text(encoding="utf-8"))["models"]
    except (FileNotFoundError, NotADirectoryError):
        raise StageError(f"{folder} holds no exported model.", NO_MODEL) from None
    except (ValueError, KeyError, TypeError):
        raise StageError(f"{folder}/export.json is damaged.", "Make it again: `dvc repro -f compare`.") from None
    if precision not in models:
        published = ", ".join(models)
        raise StageError(
            f"{folder} has no model in {precision}; it has {published}.", "export.precisions asks for it; compare publishes it."
        )
    path = folder / str(models[precision]["file"])
    if not path.is_file():
        raise StageError(f"{path} is missing.", "`dvc checkout` brings it back.")
    return path


def _tokenizer(folder: Path, about: dict[str, str], max_length: int) -> Tokenizer:
    path = folder / about["file"]
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise StageError(f"{path} is missing: a model needs its tokenizer beside it.", "Copy it from where the model came from.") from None
    if hashlib.sha256(content).hexdigest() != about["sha256"]:
        raise StageError(f"{path} is not the tokenizer that this model was trained with.", "Copy it from where the model came from.")
    tokenizer = Tokenizer.from_buffer(content)
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length, strategy="longest_first", direction=about["truncation_side"])
    return tokenizer
