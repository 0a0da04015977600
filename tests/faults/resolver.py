"""Run a command with a name server that knows no name, and record the names that were looked up.

``python resolver.py RECORD COMMAND...``, which ``tests/faults/networks.py`` starts in namespaces of its own
for network and mounts.
"""

import fcntl
import json
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1
SETTINGS = {
    "resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def main() -> None:
    record, *command = sys.argv[1:]
    names: set[str] = set()
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        fcntl.ioctl(server, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
        for name, content in SETTINGS.items():
            (Path(folder) / name).write_text(content)
            subprocess.run(
                ["mount", "--bind", Path(folder, name), Path("/etc", name).resolve(strict=True)], check=True
            )
        server.bind(("127.0.0.1", 53))
        threading.Thread(target=answer, args=(server, names), daemon=True).start()
        code = subprocess.run(command, check=False).returncode
        Path(record).write_text(json.dumps(sorted(names)))
    sys.exit(code)


def answer(server: socket.socket, names: set[str]) -> None:
    """Answer each request with NXDOMAIN."""
    while True:
        request, client = server.recvfrom(512)
        labels, position = [], 12
        while length := request[position]:
            labels.append(request[position + 1 : position + 1 + length].decode())
            position += 1 + length
        names.add(".".join(labels))
        question = request[12 : position + 5]
        server.sendto(request[:2] + b"\x81\x83" + b"\0\1" + bytes(6) + question, client)


if __name__ == "__main__":
    main()
