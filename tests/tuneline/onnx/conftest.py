"""The exported model and the pipeline of the stage"s tests."""

from tests.stages.export.conftest import batches, fp32, pipeline, split

__all__ = ["batches", "fp32", "pipeline", "split"]
