"""A user that the system has no name for, as in a container that runs under any number."""

import os
import pwd
import subprocess
import sys

import pytest

from tests.conftest import ROOT

CODE = """
import getpass, os, pwd, sys
if os.geteuid() == 0:
    os.setuid(int(sys.argv[1]))
import tuneline
print(tuneline.USER_HAS_NAME, os.environ.get("USER"), getpass.getuser())
"""


def imported(**environment: str) -> str:
    """Import ``tuneline`` as a user without a name; return what its process knows of the user."""
    nameless = 54_321
    with pytest.raises(KeyError):
        pwd.getpwuid(nameless)
    command = [sys.executable, "-c", CODE, str(nameless)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without a name")
def test_user_without_a_name_is_called_by_its_number():
    assert imported() == "False 54321 54321"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without a name")
def test_name_in_the_environment_is_kept():
    assert imported(USER="worker") == "True worker worker"
