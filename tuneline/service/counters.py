"""What the service counts, for ``/metrics`` in the format of Prometheus. No text is in it."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
"""Bounds of the histograms of time."""
ROWS = (1, 2, 4, 8, 16, 32, 64)
"""Bounds of the histogram of rows in a forward pass."""


class ServiceCounters:
    """The counters of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "tuneline_requests", "Requests, by the status of the answer", ["status"], registry=self.registry
        )
        self.seconds = Histogram(
            "tuneline_request_seconds", "Time of a request", ["path"], buckets=SECONDS, registry=self.registry
        )
        self.predictions = Counter(
            "tuneline_predictions",
            "Rows by version and answer",
            ["version", "answer"],
            registry=self.registry,
        )
        self.batch_rows = Histogram(
            "tuneline_batch_rows", "Rows of a forward pass", buckets=ROWS, registry=self.registry
        )
        self.batch_seconds = Histogram(
            "tuneline_batch_seconds", "Time of a forward pass", buckets=SECONDS, registry=self.registry
        )
        self.waiting = Gauge("tuneline_waiting_rows", "Rows that no worker has taken", registry=self.registry)
        self.version = Gauge(
            "tuneline_model", "1 for the version that answers", ["version"], registry=self.registry
        )
        self.reloads = Counter(
            "tuneline_reloads", "Models that were loaded or refused", ["outcome"], registry=self.registry
        )
        self.shadow = Counter(
            "tuneline_shadow_rows", "Rows that a second version answered", ["version", "outcome"],
            registry=self.registry,
        )  # fmt: skip

    def count_batch(self, rows: int, seconds: float) -> None:
        """Count a forward pass."""
        self.batch_rows.observe(rows)
        self.batch_seconds.observe(seconds)

    def page(self) -> bytes:
        """Return what ``/metrics`` answers."""
        return generate_latest(self.registry)
