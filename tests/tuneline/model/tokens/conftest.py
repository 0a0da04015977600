"""The tokenizer of the stage"s tests."""

from tests.stages.tokenize.conftest import wordpiece

__all__ = ["wordpiece"]
