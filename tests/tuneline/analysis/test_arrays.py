import resource
import signal

import numpy as np
import pytest

from tuneline.analysis import similarity
from tuneline.analysis.similarity import GrowingArray, MappedArray


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_array_has_what_was_appended_and_no_name(folder):
    growing = GrowingArray(np.int32)
    for values in ([1, 2], [], [3]):
        growing.append(np.array(values))
    array = growing.mapped()
    assert array.values.tolist() == [1, 2, 3]
    assert array.values.dtype == np.int32
    assert not list(folder.iterdir())
    assert (
        GrowingArray(np.int32).mapped().values.tolist()
        == MappedArray.zeros((0,), np.int8).values.tolist()
        == []
    )


def test_released_array_keeps_its_values(monkeypatch):
    monkeypatch.setattr(similarity, "KEPT", 0)
    array = MappedArray.zeros((3000, 4), np.uint16)
    array.values[:] = np.arange(3000)[:, None]
    array.release()
    assert (array.values == np.arange(3000)[:, None]).all()


def test_array_beyond_the_room_is_an_error_and_not_a_signal():
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
        with pytest.raises(OSError, match="File too large"):
            MappedArray.zeros((1 << 17,), np.uint8)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
