"""The stage ``download`` on files of a test."""

from tests.stages.download.conftest import download, project

__all__ = ["download", "project"]
