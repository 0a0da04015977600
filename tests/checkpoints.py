"""Small checkpoints with random weights, as a hub or a folder under ``models/source/`` has them."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from transformers import BertTokenizer

from tests.small_pipeline import tiny_model

WORDS = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the parcel invoice is was missing paid twice please help me with my order"
    " refund a b c d e f g h i j k l m n o p q r s t u v w x y z"
).split()
CARD = "---\nlicense: apache-2.0\n---\n# A small BERT\n"


@cache
def checkpoint_files(seed: int = 0, shard: str = "10GB", limit: int = 64) -> dict[str, bytes]:
    """Return the files of a BERT with a tokenizer.

    Args:
        seed: Checkpoints with another seed have other weights.
        shard: Size of a file of weights; smaller than the model for several.
        limit: Largest number of tokens.
    """
    import torch

    model = tiny_model("bert", outputs=2, vocab_size=len(WORDS))
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) * 0.02
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder, max_shard_size=shard)
        BertTokenizer(
            vocab={word: number for number, word in enumerate(WORDS)}, model_max_length=limit
        ).save_pretrained(folder)
        Path(folder, "README.md").write_text(CARD)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def write_checkpoint(folder: Path, seed: int = 0, limit: int = 64) -> Path:
    """Write the files of a checkpoint into a new folder."""
    folder.mkdir(parents=True)
    for name, content in checkpoint_files(seed, limit=limit).items():
        (folder / name).write_bytes(content)
    return folder
