"""A web server that keeps files, as DVC's remotes over HTTP want it: GET, HEAD and PUT, with a password."""

import base64
import contextlib
import http.server
import threading
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

USER, PASSWORD = "line", "open sesame"


@contextlib.contextmanager
def web_folder(folder: Path) -> Iterator[str]:
    """Serves a folder on a free port of the loopback, and yields its address."""
    folder.mkdir()

    class Handler(_Files):
        def __init__(self, *arguments) -> None:
            super().__init__(*arguments, directory=str(folder))

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class _Files(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        wanted = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") == f"Basic {wanted}":
            return True
        self.close_connection = True
        self.send_error(HTTPStatus.UNAUTHORIZED)
        return False

    def do_PUT(self) -> None:
        target = Path(self.translate_path(self.path))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(self._body())
        self.send_response(HTTPStatus.CREATED)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers["Content-Length"]))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def log_message(self, *_arguments) -> None:
        """Nothing: the tests' output is their own."""
