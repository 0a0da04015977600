"""Ray Serve with its own batches, one replica per core (``pip install '.[servers]'``)."""

import logging
import signal
import sys
from pathlib import Path
from typing import Any

import ray
from fastapi import Request
from ray import serve

from benchmarks.service.dialect import MAX_BATCH, WAIT_SECONDS, answers, row_of, server_parser
from tuneline.core.machine import threads
from tuneline.program.text_classifier import TextClassifier

WAITING_REQUESTS = 256
"""Requests that a replica takes before it has answered them; Ray's default of 5 would end batches there."""


@serve.deployment(max_ongoing_requests=WAITING_REQUESTS, ray_actor_options={"num_cpus": 0})
class Replica:
    """One replica: a session of one thread."""

    def __init__(self, folder: Path, precision: str) -> None:
        """Load the model."""
        self.model = TextClassifier.load(folder, precision, 1)

    @serve.batch(max_batch_size=MAX_BATCH, batch_wait_timeout_s=WAIT_SECONDS)
    async def predict(self, rows: list[tuple[str, ...]]) -> list[list[dict[str, Any]]]:
        """Return the answers for a batch."""
        return answers(self.model, rows)

    async def __call__(self, request: Request) -> Any:
        """Answer a request, of any path."""
        if request.method == "GET":
            return {}
        return await self.predict(row_of(await request.json()))


def main() -> None:
    """Serve until the process is ended."""
    options = server_parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    serve.start(http_options={"host": "127.0.0.1", "port": options.port})
    replicas = Replica.options(num_replicas=threads()).bind(options.model.resolve(), options.precision)
    serve.run(replicas)
    try:
        signal.pause()
    finally:
        serve.shutdown()
        ray.shutdown()


if __name__ == "__main__":
    main()
