"""Arrays that are too large for memory: in files without a name, which the system removes when the process ends, however it ends.

They lie in the working folder, so on the disk of the project: ``/tmp`` is often small, or in memory. A full disk raises an ``OSError``.
"""

import mmap
import os
import tempfile
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

KEPT = 256 << 20
"""Bytes of a file that may stay in memory."""


class MappedArray:
    """An array in a file, of which the system reads into memory what is used.

    Attributes:
        values: The array.
    """

    def __init__(self, file: int, dtype: DTypeLike, shape: tuple[int, ...]) -> None:
        size = prod(shape) * np.dtype(dtype).itemsize
        self._map = mmap.mmap(file, size) if size else None
        self.values: NDArray[Any] = np.frombuffer(self._map, dtype).reshape(shape) if self._map else np.empty(shape, dtype)

    @classmethod
    def zeros(cls, shape: tuple[int, ...], dtype: DTypeLike) -> "MappedArray":
        """Make an array of zeros."""
        with tempfile.TemporaryFile(dir=".") as file:
            if size := prod(shape) * np.dtype(dtype).itemsize:
                os.posix_fallocate(file.fileno(), 0, size)  # else a full disk kills the process while it writes to the array
            return cls(file.fileno(), dtype, shape)

    def release(self) -> None:
        """Let go of what was read into memory of a large array. Nothing is lost: what is used again is read again."""
        if self._map and len(self._map) > KEPT:
            self._map.madvise(mmap.MADV_DONTNEED)


class GrowingArray:
    """A one-dimensional array in a file, made by appending to it.

    Args:
        dtype: Type of the values.
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._file = tempfile.TemporaryFile(dir=".")  # noqa: SIM115 - it is used as long as this object
        self._length = 0

    def append(self, values: NDArray[Any]) -> None:
        """Append values."""
        self._file.write(np.ascontiguousarray(values, self._dtype).data)
        self._length += len(values)

    def mapped(self) -> MappedArray:
        """Return all values; nothing can be appended any more."""
        with self._file as file:
            file.flush()
            return MappedArray(file.fileno(), self._dtype, (self._length,))
