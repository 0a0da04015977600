"""The exported models: comparison with the trained model, file sizes, and latency on this machine.

Latency is measured while the report is written, because it is a property of the machine, not of the model.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tuneline.files.shards import SplitReader, split_files
from tuneline.onnx import latency
from tuneline.paths import COMPARISON, ONNX, TIMING, TOKENIZED
from tuneline.records.comparison import Comparison, Flip, Flips, ModelComparison
from tuneline.records.export import EXPORT_RECORD, UsageRecord
from tuneline.records.record import Record

MAX_FLIPS = 10
LATENCY_FILE = TIMING / "latency.json"
BATCH_SIZES = (1, 32)
SECONDS = 1.5
"""Duration of the measurement for each model and batch size."""


@dataclass(frozen=True)
class ModelLatency(latency.Latency):
    """Latency of the model of one precision, such as ``int8``."""

    precision: str


class Latencies(Record):
    """All measurements on this machine: ``reports/timing/latency.json``."""

    threads: int
    """Threads of ONNX Runtime."""
    measured: Sequence[ModelLatency]


@dataclass(frozen=True)
class ExportedModel:
    """One exported model.

    Attributes:
        precision: Its precision, such as ``int8``.
        comparison: Comparison with the trained model.
        megabytes: Size of its file; ``None`` if it is not published.
        latencies: Measurements by batch size.
        flips: Rows on which its prediction differs from the trained model's.
    """

    precision: str
    comparison: ModelComparison
    megabytes: float | None
    latencies: Sequence[ModelLatency]
    flips: Sequence[Flip]


@dataclass(frozen=True)
class ExportedModels:
    """All exported models beside the trained one.

    Attributes:
        comparison: Comparison of all models.
        models: The exported models.
        threads: Threads of the latency measurement; ``None`` without one.
    """

    comparison: Comparison
    models: list[ExportedModel]
    threads: int | None


def read_exported_models(root: Path, latencies: Latencies | None) -> ExportedModels | None:
    """Join the files of the stages ``compare`` and ``export`` with the latencies; ``None`` before the first comparison."""
    comparison = Comparison.read_if_valid(root / COMPARISON / "comparison.json")
    if comparison is None:
        return None
    flips = Flips.read_if_valid(root / COMPARISON / "flips.json")
    record = UsageRecord.read_if_exists(root / ONNX / EXPORT_RECORD)
    sizes = {precision: model.bytes for precision, model in record.models.items()} if record else {}
    models = [
        ExportedModel(
            precision,
            one,
            sizes[precision] / 2**20 if sizes.get(precision) else None,
            [latency for latency in (latencies.measured if latencies else []) if latency.precision == precision],
            flips.of(precision)[:MAX_FLIPS] if flips else (),
        )
        for precision, one in comparison.models.items()
    ]
    return ExportedModels(comparison, models, latencies.threads if latencies else None)


def measure_latency(root: Path, split: str) -> Latencies | None:
    """Measure every exported model on rows of the reported split for a few seconds, and write ``reports/timing/latency.json``.

    Returns:
        ``None`` if there are no models or no rows.
    """
    from tuneline.batches import TokenizedSplit
    from tuneline.machine import threads
    from tuneline.onnx.session import OnnxClassifier

    record = UsageRecord.read_if_exists(root / ONNX / EXPORT_RECORD)
    if record is None or not record.models or not split_files(root / TOKENIZED, split):
        return None
    data = TokenizedSplit.read(SplitReader.open(root / TOKENIZED, split, made_by="tokenize"))
    measured = []
    for precision, model in record.models.items():
        classifier = OnnxClassifier(root / ONNX / model.file)
        for size in BATCH_SIZES:
            one = latency.measure_latency(classifier, data, size, record.pad_token_id, SECONDS)
            measured.append(ModelLatency(**asdict(one), precision=precision))
    latencies = Latencies(threads=threads(), measured=measured)
    latencies.write(root / LATENCY_FILE)
    return latencies


def read_latency(root: Path) -> Latencies | None:
    """Return the last measurement; ``None`` if there is none or the models are newer."""
    path, export = root / LATENCY_FILE, root / ONNX / EXPORT_RECORD
    latencies = Latencies.read_if_valid(path)
    if latencies is None or not export.exists() or os.path.getmtime(path) < os.path.getmtime(export):  # noqa: PTH204 - two of a kind
        return None
    return latencies
