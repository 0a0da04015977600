"""The file with the server's password, when the process that creates it is killed."""

import os

from flows.server.schedule import read_or_create
from tests.faults.kills import kills


def create(file):
    os.umask(0)  # the least careful user
    read_or_create(file)


def test_killed_creation_leaves_no_partial_and_no_readable_password(tmp_path):
    file = tmp_path / "secret"
    found = []
    for _ in kills(lambda: create(file)):
        assert not [path for path in tmp_path.iterdir() if path.stat().st_mode & 0o077]
        found.append(file.exists() and len(file.read_text()))
        file.unlink(missing_ok=True)
    complete = len("tuneline:") + 64 + 1
    assert found[:2] == [False, False]
    assert set(found) <= {False, complete}
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(file.read_text()) == complete
