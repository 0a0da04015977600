"""The exported models: comparison with the trained model, file sizes, and latency on this machine.

Latency is measured while the report is written, because it is a property of the machine, not of the model.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tuneline.cli.report.reading import read_json
from tuneline.files import write_json
from tuneline.onnx import latency
from tuneline.paths import COMPARISON, ONNX, TIMING, TOKENIZED, split_file
from tuneline.records.export import EXPORT_RECORD, UsageRecord

MAX_FLIPS = 10
LATENCY_FILE = TIMING / "latency.json"
BATCH_SIZES = (1, 32)
SECONDS = 1.5
"""Duration of the measurement for each model and batch size."""


@dataclass(frozen=True)
class ModelLatency(latency.Latency):
    """Latency of the model of one precision, such as ``int8``."""

    precision: str


@dataclass(frozen=True)
class Latencies:
    """All measurements, and the number of threads of ONNX Runtime."""

    threads: int
    measured: list[ModelLatency]


@dataclass(frozen=True)
class ExportedModel:
    """One exported model.

    Attributes:
        precision: Its precision, such as ``int8``.
        metrics: Its entry in ``reports/compare/comparison.json``.
        violations: What is outside its tolerance.
        published: True if it is in ``models/onnx``.
        megabytes: Size of its file; ``None`` if it is not published.
        latencies: Measurements by batch size.
        flips: Rows on which its prediction differs from the trained model's.
    """

    precision: str
    metrics: Mapping[str, Any]
    violations: Sequence[str]
    published: bool
    megabytes: float | None
    latencies: Sequence[ModelLatency]
    flips: Sequence[Mapping[str, Any]]

    def drop_interval(self, metric: str) -> tuple[float, float] | None:
        """Return the ends of the 95 % interval of the drop of a metric."""
        low, high = self.metrics.get(f"{metric}_drop_low"), self.metrics.get(f"{metric}_drop_high")
        return None if low is None or high is None else (low, high)


@dataclass(frozen=True)
class ExportedModels:
    """All exported models beside the trained one.

    Attributes:
        metric: Name of the compared metric.
        rows: Number of compared rows.
        trained: Metrics of the trained model.
        models: The exported models.
        threads: Threads of the latency measurement; ``None`` without one.
    """

    metric: str
    rows: int
    trained: Mapping[str, float]
    models: list[ExportedModel]
    threads: int | None


def read_exported_models(root: Path, latencies: Latencies | None) -> ExportedModels | None:
    """Join the files of the stages ``compare`` and ``export`` with the latencies; ``None`` before the first comparison."""
    comparison = read_json(root / COMPARISON / "comparison.json")
    if comparison is None:
        return None
    flips = read_json(root / COMPARISON / "flips.json") or {}
    record = UsageRecord.read_if_exists(root / ONNX / EXPORT_RECORD)
    sizes = {precision: model.bytes for precision, model in record.models.items()} if record else {}
    models = [
        ExportedModel(
            precision,
            metrics,
            metrics.get("faults", []),
            bool(metrics.get("published")),
            sizes[precision] / 2**20 if sizes.get(precision) else None,
            [latency for latency in (latencies.measured if latencies else []) if latency.precision == precision],
            (flips.get(precision) or [])[:MAX_FLIPS],
        )
        for precision, metrics in comparison.get("models", {}).items()
    ]
    return ExportedModels(
        str(comparison.get("metric", "accuracy")),
        int(comparison.get("rows", 0)),
        comparison.get("trained", {}),
        models,
        latencies.threads if latencies else None,
    )


def measure_latency(root: Path, split: str) -> Latencies | None:
    """Measure every exported model on rows of the reported split for a few seconds, and write ``reports/timing/latency.json``.

    Returns:
        ``None`` if there are no models or no rows.
    """
    from tuneline.batches import TokenizedSplit
    from tuneline.onnx.session import OnnxClassifier, threads

    record = UsageRecord.read_if_exists(root / ONNX / EXPORT_RECORD)
    path = split_file(root / TOKENIZED, split)
    if record is None or not record.models or not path.is_file():
        return None
    data = TokenizedSplit.read(path)
    measured = []
    for precision, model in record.models.items():
        classifier = OnnxClassifier(root / ONNX / model.file)
        for size in BATCH_SIZES:
            one = latency.measure_latency(classifier, data, size, record.pad_token_id, SECONDS)
            measured.append(ModelLatency(**asdict(one), precision=precision))
    latencies = Latencies(threads(), measured)
    write_json(root / LATENCY_FILE, asdict(latencies))
    return latencies


def read_latency(root: Path) -> Latencies | None:
    """Return the last measurement; ``None`` if there is none or the models are newer."""
    path, export = root / LATENCY_FILE, root / ONNX / EXPORT_RECORD
    record = read_json(path)
    if record is None or not export.exists() or os.path.getmtime(path) < os.path.getmtime(export):  # noqa: PTH204 - two of a kind
        return None
    return Latencies(record["threads"], [ModelLatency(**entry) for entry in record["measured"]])
