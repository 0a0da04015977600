"""A network that is away, or that knows no name: a program runs in a network namespace with at most the loopback interface."""

import subprocess
import sys
from pathlib import Path

import pytest

NAMESPACE = ("unshare", "--user", "--map-root-user", "--net")
RESOLVER = Path(__file__).with_name("resolver.py")


def without_network(*command: str) -> list[str]:
    """Return ``command`` in a network namespace of its own. The test is skipped where the system does not allow one."""
    if subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system does not allow a user to make a network namespace")
    return [*NAMESPACE, *command]


def recording_lookups(record: Path, *command: str) -> list[str]:
    """Return ``command`` with the loopback interface only, and a name server that knows no name.

    Args:
        record: File for the names that the command and its children look up: a JSON list, written when the command has ended.
        command: Program and arguments. The test is skipped where the system does not allow a user to redirect look-ups.
    """
    recorded = [*NAMESPACE, "--mount", sys.executable, str(RESOLVER), str(record)]
    if subprocess.run([*recorded, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system does not allow a user to redirect look-ups of names")
    return [*recorded, *command]
