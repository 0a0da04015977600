import pytest

from stages.tokenize.wordpiece import train_wordpiece
from tests.stages.tokenize.made import sentences


@pytest.fixture(scope="session")
def wordpiece():
    """A WordPiece tokenizer trained on made-up sentences. Tests that change it take a copy."""
    return train_wordpiece(lambda: iter([sentences(400, seed=1)]), vocab_size=400)
