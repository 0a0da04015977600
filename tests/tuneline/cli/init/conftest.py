"""A folder with parameters, and small files to start from."""

from tests.tuneline.operations.adoption.conftest import checkpoint, project, run_tuneline, tickets

__all__ = ["checkpoint", "project", "run_tuneline", "tickets"]
