"""An S3-compatible server on this machine."""

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

CREDENTIALS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "region_name": "us-east-1"}
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
}


class Bucket:
    """A bucket of the server.

    Attributes:
        url: Its address.
        endpoint: The server's address, for ``AWS_ENDPOINT_URL``.
    """

    def __init__(self, endpoint: str, name: str) -> None:
        import boto3

        self.url, self.endpoint, self._name = f"s3://{name}", endpoint, name
        self._client = boto3.client("s3", endpoint_url=endpoint, **CREDENTIALS)
        self._client.create_bucket(Bucket=name)

    def put(self, key: str, content: bytes) -> None:
        """Write an object."""
        self._client.put_object(Bucket=self._name, Key=key, Body=content)

    def get(self, key: str) -> bytes:
        """Read an object."""
        content: bytes = self._client.get_object(Bucket=self._name, Key=key)["Body"].read()
        return content

    def delete(self, key: str) -> None:
        """Remove an object."""
        self._client.delete_object(Bucket=self._name, Key=key)

    def keys(self) -> list[str]:
        """List the names of all objects."""
        return [one["Key"] for one in self._client.list_objects_v2(Bucket=self._name).get("Contents", [])]

    def uploads(self) -> int:
        """Return the number of uploads that were begun and not completed."""
        return len(self._client.list_multipart_uploads(Bucket=self._name).get("Uploads", []))


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


@contextmanager
def refusing(endpoint: str) -> Iterator[None]:
    """Let a storage refuse all keys, which are wrong: otherwise it takes any."""

    def set_free_requests(number: bytes) -> None:
        request = urllib.request.Request(  # noqa: S310 - http
            f"{endpoint}/moto-api/reset-auth", number, {"Content-Type": "text/plain"}
        )
        urllib.request.urlopen(request).close()  # noqa: S310

    set_free_requests(b"0")
    try:
        yield
    finally:
        set_free_requests(b"inf")
