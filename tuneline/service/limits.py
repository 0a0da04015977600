"""What a request of the service may take."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ServiceLimits:
    """Limits of requests.

    Attributes:
        body_bytes: Bytes of a body.
        body_seconds: Seconds in which a body has to arrive.
        rows: Rows of a request.
        waiting_rows: Rows of all requests that wait for a worker.
        seconds: Seconds after which rows that no worker has taken are given up.
        row_characters: Characters of a row. Tokenizers take seconds and a gigabyte for a million without a
            space, of which the model reads the first few.
    """

    body_bytes: int = 2_000_000
    body_seconds: float = 10.0
    rows: int = 1_024
    waiting_rows: int = 4_096
    seconds: float = 30.0
    row_characters: int = 100_000
