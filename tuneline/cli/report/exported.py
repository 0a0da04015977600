"""The exported models: how far from the trained one, how large, published or not, and the rows that flip."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuneline.cli.report.latency import Latencies, Latency

FLIPS = 10


@dataclass(frozen=True)
class ExportedModel:
    """One precision.

    Attributes:
        precision: Its name.
        figures: From ``reports/compare/comparison.json``.
        faults: What is outside its tolerance.
        published: Whether it lies in ``models/onnx``.
        megabytes: Of its file, where it is published.
        latencies: Measured calls, by batch size.
        flips: Rows on which it does not say what the trained model says.
    """

    precision: str
    figures: Mapping[str, Any]
    faults: Sequence[str]
    published: bool
    megabytes: float | None
    latencies: Sequence[Latency]
    flips: Sequence[Mapping[str, Any]]

    def interval(self, metric: str) -> tuple[float, float] | None:
        """Ends of the interval around the drop of a metric."""
        low, high = self.figures.get(f"{metric}_drop_low"), self.figures.get(f"{metric}_drop_high")
        return None if low is None or high is None else (low, high)


@dataclass(frozen=True)
class Exported:
    """All of them, beside the trained model."""

    metric: str
    rows: int
    trained: Mapping[str, float]
    models: list[ExportedModel]
    threads: int | None


def exported(
    comparison: Mapping[str, Any], flips: Mapping[str, Any] | None, record: Mapping[str, Any] | None, latencies: Latencies | None
) -> Exported:
    """Joins what ``compare`` and ``export`` wrote with what was measured here."""
    sizes = {name: model.get("bytes") for name, model in ((record or {}).get("models") or {}).items()}
    models = [
        ExportedModel(
            precision,
            figures,
            figures.get("faults", []),
            bool(figures.get("published")),
            sizes[precision] / 2**20 if sizes.get(precision) else None,
            [one for one in (latencies.measured if latencies else []) if one.precision == precision],
            ((flips or {}).get(precision) or [])[:FLIPS],
        )
        for precision, figures in comparison.get("models", {}).items()
    ]
    return Exported(
        str(comparison.get("metric", "accuracy")),
        int(comparison.get("rows", 0)),
        comparison.get("trained", {}),
        models,
        latencies.threads if latencies else None,
    )
