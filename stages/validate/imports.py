"""Imports Great Expectations without libraries that this stage does not use, which would take a third of the stage's processor time."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

UNUSED = ("sqlalchemy",)
"""Optional libraries: with SQLAlchemy, which the flows need, Great Expectations can read databases. The stage reads files only."""
DEFERRED = ("altair", "jsonschema", "mistune", "scipy.stats")
"""Libraries that Great Expectations imports at once and uses in few functions: they are imported when one of these is called."""


@contextmanager
def fewer_imports() -> Iterator[None]:
    """Import modules as if ``UNUSED`` libraries were not installed, and with placeholders for ``DEFERRED`` ones.

    Afterwards all of them can be imported as usual. Libraries that are imported already stay as they are.
    """
    placeholders = {**dict.fromkeys(UNUSED), **{name: _Deferred(name) for name in DEFERRED}}
    added = {name: module for name, module in placeholders.items() if name not in sys.modules}
    sys.modules.update(added)  # type: ignore[arg-type]  # None: Python's import system raises ModuleNotFoundError
    try:
        yield
    finally:
        for name, module in added.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


class _Deferred(ModuleType):
    """A module that is imported when an attribute of it is used.

    Unlike a module of ``importlib.util.LazyLoader``, it is not loaded when ``inspect`` asks all modules for their files.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)
