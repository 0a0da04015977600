"""Rows by which it is noticed that a model computes other numbers than when it was published.

Their texts are pieces of the vocabulary, and no texts of the data, which must not leave with a model. Their
outputs are in ``export.json``. Another version of a library or another processor can change them, and hashes
of files do not show it (for example https://github.com/microsoft/onnxruntime/issues/28557).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tuneline.core.runtime.errors import StageError
from tuneline.model.tokens.encoding import EncodingError
from tuneline.onnx.exported_model import ExportedModel
from tuneline.onnx.usage import EXPORT_RECORD, UsageRecord

PIECES = (1, 3, 8, 20, 50, 120)
"""Pieces of the vocabulary in the texts of each probe."""
DIGITS = 6
"""Digits after the decimal point of an output."""
TOLERANCES = {"fp32": 0.001, "int8": 0.2}
"""Largest difference of an output, as a share of how far the outputs of all probes are apart.

Between processors, fp32 differs in the last digits, and the roundings of int8 can fall to the other side.
"""


def probe_texts(model: ExportedModel) -> list[tuple[str, ...]]:
    """Return the texts of the probes of a model: pieces of its vocabulary, drawn with a fixed seed."""
    tokenizer = model.encoder.tokenizer
    vocabulary = tokenizer.get_vocab_size()
    draw = np.random.default_rng(0)
    texts = []
    for pieces in PIECES:
        row = []
        for number, _ in enumerate(model.text_columns):
            # the second text is short: windows of a long one need room beside it
            ids = draw.integers(vocabulary, size=min(pieces, 3) if number else pieces).tolist()
            row.append(f"{tokenizer.decode(ids, skip_special_tokens=True)} .")
        try:
            model.encode([tuple(row)])
        except EncodingError:  # the windows of the model are too short for it
            continue
        texts.append(tuple(row))
    return texts


def probe_outputs(model: ExportedModel, texts: Sequence[Sequence[str]]) -> list[list[float]]:
    """Return the logits of each probe, which is computed alone."""
    outputs = []
    for row in texts:
        logits = model.logits(model.encode([tuple(row)]), 1)
        outputs.append(logits[0].astype(np.float64).round(DIGITS).tolist())
    return outputs


def check_probes(model: ExportedModel, folder: Path) -> None:
    """Predict the probes of the model in a folder, if it has any.

    Raises:
        StageError: An output differs from the recorded one by more than rounding explains.
    """
    record = UsageRecord.read(folder / EXPORT_RECORD)
    precision = model.classifier.metadata["precision"]
    recorded = record.models[precision].probe_outputs
    if record.probes is None or recorded is None:
        return
    expected = np.array(recorded)
    difference = np.abs(np.array(probe_outputs(model, record.probes)) - expected).max()
    allowed = TOLERANCES[precision] * np.ptp(expected)
    # with `>`, NaN would pass: every comparison with it is false
    if not difference <= allowed:
        raise StageError(
            f"{folder}: the {precision} model computes other numbers here than when it was published: they"
            f" differ by up to {difference:.2g}, and {allowed:.2g} can be rounding.",
            "Compare the versions of onnxruntime and tokenizers with requirements.txt; or run `dvc repro -f"
            " compare` on this machine, which compares the model with the trained one.",
        )
