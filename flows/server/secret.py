"""The password of a machine's own server: generated once, in a file that only its owner can read."""

import os
import secrets
import stat
import sys
import tempfile
from pathlib import Path

FILE = "tuneline-serve.secret"
"""Name of the file, in the folder of the server's database."""
_REMEDY = "Remove it; the next start writes a new one, with which other terminals log in."


def read_or_create(file: Path) -> str:
    """Return the ``USER:PASSWORD`` in a file, which is created with a random password if it is missing.

    The file appears complete, and other users can read it at no time.

    Raises:
        SystemExit: Other users can read or replace the content of the file, or it contains no ``USER:PASSWORD``.
    """
    if not os.path.lexists(file):
        _create(file)
    status = file.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        sys.exit(f"Other users may know the password of the server: {file} is not a file of yours with mode 0600. {_REMEDY}")
    text = file.read_text(encoding="utf-8", errors="replace").strip()
    if not all(text.partition(":")) or len(text.split()) != 1:
        sys.exit(f"{file} is damaged: it should contain USER:PASSWORD. {_REMEDY}")
    return text


def _create(file: Path) -> None:
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # mode 0600 from the start
    partial = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as content:
            content.write(f"tuneline:{secrets.token_hex(32)}\n")
            content.flush()
            os.fsync(descriptor)
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
