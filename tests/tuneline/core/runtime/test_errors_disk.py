import errno
import os
from pathlib import Path

import pytest

from tuneline.core.runtime.errors import DataError, DiskError, explain_disk_errors, is_full_disk


def no_space(*names: str) -> OSError:
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), names[0] if names else None)
    if names[1:]:
        error.filename2 = names[1]
    return error


def explained(error: Exception) -> str:
    with pytest.raises(DiskError) as raised, explain_disk_errors():
        raise error
    return str(raised.value)


def test_full_disk_is_explained_with_the_file_and_what_to_do(tmp_path):
    problem, hint = explained(no_space(str(tmp_path / "gone" / "out.csv"))).splitlines()
    assert problem == f"{tmp_path}/gone/out.csv cannot be written: No space left on device."
    assert "Make room" in hint


@pytest.mark.parametrize(
    "cause", [no_space(), RuntimeError("write(): fd 3 failed with No space left on device")]
)
def test_full_disk_is_found_among_the_causes(cause):
    error = ValueError("the dataset could not be generated")
    error.__cause__ = cause
    assert is_full_disk(error)


def test_other_errors_pass():
    with pytest.raises(ZeroDivisionError), explain_disk_errors():
        _ = 1 / 0
    with pytest.raises(FileNotFoundError), explain_disk_errors():
        Path("/nowhere/at/all").read_text()
    with pytest.raises(DataError), explain_disk_errors():
        raise DataError("train.csv, row 3: No space left on device is the text of a row")


@pytest.mark.parametrize("number", [errno.EROFS])
def test_place_that_this_user_may_not_write_is_named(number):
    message = explained(OSError(number, os.strerror(number), "/etc/nowhere/file"))
    assert message.startswith(
        f"/etc/nowhere/file cannot be read or written: {os.strerror(number)}.\n  `namei -l "
    )
