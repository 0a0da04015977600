"""The project of the stage"s tests."""

from tests.stages.evaluate.conftest import project

__all__ = ["project"]
