"""A checkout without problems."""

from tests.tuneline.operations.checkup.conftest import checkout

__all__ = ["checkout"]
