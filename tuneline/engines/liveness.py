"""Whether the servers of a Ray cluster are alive. Ray itself ends this process, 15 to 60 seconds after they ended, without any error."""

import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

from tuneline.errors import StageError

SECONDS, PATIENCE = 2.0, 5.0
"""How often the servers are asked, and how long one may take to answer."""
Server = tuple[str, int]


@contextmanager
def watched(ray: ModuleType, tolerated: int) -> Iterator[None]:
    """Interrupt the block, as Ctrl-C does, when the head of the cluster or the node of this process has ended. For the main thread.

    Args:
        ray: The module, which is connected.
        tolerated: How many times in succession they need not answer.

    Raises:
        StageError: One of them has ended.
    """
    lost, ended, main, found = threading.Event(), threading.Event(), threading.get_ident(), servers(ray)

    def watch() -> None:
        silences = 0
        while not ended.wait(SECONDS):
            silences = 0 if all(map(answers, found)) else silences + 1
            if silences > tolerated and not ended.is_set():
                lost.set()
                signal.pthread_kill(main, signal.SIGUSR1)
                return

    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)  # not SIGINT, which background jobs of a shell ignore
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    except KeyboardInterrupt:
        if not lost.is_set():
            raise
        hint = "The tasks that have ended are kept. Run the command again, with a lower run.workers if memory is short."
        raise StageError("The Ray cluster has ended: its servers were killed or cannot be reached.", hint) from None
    finally:
        ended.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)


def servers(ray: ModuleType) -> Sequence[Server]:
    """Return host and port of the cluster's head (GCS) and of the node of this process (raylet)."""
    context = ray.get_runtime_context()
    own = next(node for node in ray.nodes() if node["NodeID"] == context.get_node_id())
    return server_at(context.gcs_address), (own["NodeManagerAddress"], own["NodeManagerPort"])


def server_at(address: str) -> Server:
    """Return host and port of an address such as ``10.0.0.1:6379``."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def wait_for(server: Server) -> None:
    """Return when a server accepts connections.

    Raises:
        ConnectionError: It does not within 20 seconds: a cluster may be starting.
    """
    deadline = time.monotonic() + 20
    while not answers(server):
        if time.monotonic() > deadline:
            raise ConnectionError("nothing answers there.")
        time.sleep(1)


def answers(server: Server) -> bool:
    """Return True if a server accepts connections."""
    try:
        socket.create_connection(server, PATIENCE).close()
    except OSError:
        return False
    return True
