"""Which of the two ways to 8 bits a model takes, and the rows by which it is found out."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from stages.export.quantization import mean_difference, to_dynamic_int8, to_static_int8
from stages.export.storage import save
from tuneline.batches import Batch, TokenizedSplit, length_sorted_batches
from tuneline.onnx.session import SAFE_WEIGHT_BITS, OnnxClassifier, logits_of
from tuneline.params.export import Int8Params

CALIBRATION_BATCH = 16
CHOICE_ROWS = 256
"""Rows of the validation split on which ``best`` is chosen, at most."""


@dataclass(frozen=True)
class Rows:
    """Rows for calibration and choice.

    Attributes:
        train: The tokenized train split. Read only when it is needed.
        validation: The tokenized validation split. The reported split has no say in the choice.
        pad_token_id: Of the tokenizer.
        seed: Draws the rows.
    """

    train: Path
    validation: Path
    pad_token_id: int
    seed: int

    def calibration(self, wanted: int) -> Iterator[Batch]:
        """Padded batches of rows of like length from the train split."""
        split = self._draw(self.train, wanted)
        for rows in length_sorted_batches(split.lengths, CALIBRATION_BATCH):
            yield split.pad(rows, self.pad_token_id)

    def choice(self) -> TokenizedSplit:
        """The rows that decide."""
        return self._draw(self.validation, CHOICE_ROWS)

    def _draw(self, path: Path, wanted: int) -> TokenizedSplit:
        split = TokenizedSplit.read(path)
        if len(split) <= wanted:
            return split
        return split.take(np.sort(np.random.default_rng(self.seed).choice(len(split), wanted, replace=False)))


def make_int8(model: onnx.ModelProto, params: Int8Params, rows: Rows) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Quantizes a model in the way that is asked for.

    Returns:
        The model, and what to say about how it was made.
    """
    bits = {"weight_bits": SAFE_WEIGHT_BITS if params.reduce_range else 8}
    if params.method == "dynamic":
        return to_dynamic_int8(model, params.reduce_range), {"method": "dynamic", **bits}
    static = to_static_int8(model, params.reduce_range, rows.calibration(params.calibration_rows))
    if params.method == "static":
        return static, {"method": "static", **bits}
    made = {"dynamic": to_dynamic_int8(model, params.reduce_range), "static": static}
    differences = differences_from(model, made, rows)
    method = min(made, key=lambda name: differences[name])  # dynamic in a tie
    rounded = {name: round(value, 6) for name, value in differences.items()}
    return made[method], {"method": method, **bits, "mean_abs_diff_on_validation": rounded}


def differences_from(model: onnx.ModelProto, made: dict[str, onnx.ModelProto], rows: Rows) -> dict[str, float]:
    """How far the logits of some models are from those of ``model``, on average, on the rows that decide."""
    split = rows.choice()

    def run(one: onnx.ModelProto) -> NDArray[np.float32]:
        with tempfile.TemporaryDirectory() as folder:
            save(one, path := Path(folder, "model.onnx"))
            return logits_of(OnnxClassifier(path), split, rows.pad_token_id)

    reference = run(model)
    return {name: mean_difference(run(one), reference) for name, one in made.items()}
