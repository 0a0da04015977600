"""An S3-compatible server on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager

CREDENTIALS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "region_name": "us-east-1"}
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
}


class Bucket:
    """A bucket of the server, and its address."""

    def __init__(self, endpoint: str, name: str) -> None:
        import boto3

        self.url = f"s3://{name}"
        boto3.client("s3", endpoint_url=endpoint, **CREDENTIALS).create_bucket(Bucket=name)


@contextmanager
def served() -> Iterator[str]:
    """Serve a storage, and yield its address."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()
