"""LitServe with its own batches and worker processes (``pip install '.[servers]'``)."""

from typing import Any

import litserve

from benchmarks.service.dialect import MAX_BATCH, WAIT_SECONDS, answers, row_of, server_parser
from tuneline.serve.text_classifier import TextClassifier


class BatchedRows(litserve.LitAPI):
    """The model, as LitServe asks for it: each of its workers calls ``setup`` once."""

    def __init__(self, folder: Any, precision: str, threads: int) -> None:
        """Take what the workers load."""
        super().__init__(max_batch_size=MAX_BATCH, batch_timeout=WAIT_SECONDS)
        self.folder = folder
        self.precision = precision
        self.threads = threads

    def setup(self, device: str) -> None:
        """Load the model, in a worker."""
        del device
        self.model = TextClassifier.load(self.folder, self.precision, self.threads)

    def decode_request(self, request: dict[str, Any]) -> tuple[str, ...]:
        """Return the texts of a request."""
        return row_of(request)

    def batch(self, inputs: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """Return the rows as they are, where LitServe would stack arrays."""
        return inputs

    def predict(self, x: list[tuple[str, ...]]) -> list[list[dict[str, Any]]]:
        """Return the answers for a batch."""
        return answers(self.model, x)

    def unbatch(self, output: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
        """Return the answers as they are."""
        return output

    def encode_response(self, output: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return an answer, which is JSON already."""
        return output


def main() -> None:
    """Serve until the process is ended."""
    parser = server_parser()
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    api = BatchedRows(options.model, options.precision, options.threads)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=options.workers, fast_queue=True)
    server.run(
        host="127.0.0.1",
        port=options.port,
        num_api_servers=1,
        log_level="warning",
        generate_client_file=False,
    )


if __name__ == "__main__":
    main()
