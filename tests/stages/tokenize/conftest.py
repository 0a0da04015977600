import pytest

from tests.stages.tokenize.raw_splits import sentences
from tuneline.model.tokens.wordpiece import train_wordpiece


@pytest.fixture(scope="session")
def wordpiece():
    """A WordPiece tokenizer trained on generated sentences. A test that changes it must copy it."""
    return train_wordpiece(lambda: iter([sentences(400, seed=1)]), vocab_size=400)
