"""A network that is away: a program runs in a network namespace without any interface, the loopback one included."""

import subprocess

import pytest

NAMESPACE = ("unshare", "--user", "--map-root-user", "--net")


def without_network(*command: str) -> list[str]:
    """Return ``command`` in a network namespace of its own. The test is skipped where the system does not allow one."""
    if subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system does not allow a user to make a network namespace")
    return [*NAMESPACE, *command]
