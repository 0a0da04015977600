"""Measure memory and time of the tokenization of three texts of a million characters.

The tokenizers have the form of well-known families, and texts are words, Chinese, and base64. Each pair of
both runs in a process of its own. ``--whole`` tokenizes whole texts, for comparison. Run in the root of the
project: ``python -m benchmarks.big_texts``.
"""

import argparse
import base64
import json
import random
import resource
import subprocess
import sys
import time

from rich.console import Console
from rich.table import Table

from tests.tokenizer_families import FAMILIES
from tuneline.model.encoding import InputEncoder
from tuneline.model.long_text import LongText

NAMES = ("BERT, uncased", "RoBERTa", "XLM-R")
KINDS = ("words", "chinese", "base64", "pairs")
MAX_LENGTH = 128


def texts_of(kind: str, count: int, size: int) -> list[str] | list[tuple[str, ...]]:
    """Return texts of ``size`` characters."""
    source = random.Random(0)  # noqa: S311 - no secret
    texts = []
    for _ in range(count):
        if kind == "base64":
            text = base64.b64encode(source.randbytes(size)).decode()
        elif kind == "chinese":
            text = "".join(chr(source.randrange(0x4E00, 0x5E00)) + "，" * (n % 20 == 0) for n in range(size))  # noqa: RUF001
        else:
            text = " ".join(source.choices(("hello", "the", "rose", "full", "parcel,"), k=size // 3))
        texts.append(text[:size])
    if kind == "pairs":
        return [(text, text[1:]) for text in texts]
    return texts


def measure(name: str, kind: str, count: int, size: int, whole: bool) -> tuple[float, float, int]:
    """Return the MB that the tokenization takes, its seconds, and the tokens that are read."""
    texts = texts_of(kind, count, size)
    tokenizer = FAMILIES[name].tokenizer()
    encoder = InputEncoder(tokenizer, name, MAX_LENGTH, LongText(), "right")
    if whole:
        encoder.readable = lambda row: row  # type: ignore[method-assign]

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    inputs = encoder.encode(texts)
    seconds = time.perf_counter() - started
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return kilobytes / 1000, seconds, int(inputs.lengths.sum())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=3)
    parser.add_argument("--size", type=int, default=1_000_000, help="characters of a text")
    parser.add_argument("--whole", action="store_true", help="tokenize whole texts")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, kind = options.child
        print(json.dumps(measure(name, kind, options.texts, options.size, options.whole)))
        return

    title = f"{options.texts} texts of {options.size:,} characters, of which {MAX_LENGTH} tokens are read"
    table = Table(title=title, title_justify="left")
    for column in ("tokenizer", "texts", "MB", "seconds", "tokens read"):
        table.add_column(column, justify="right")
    for kind in KINDS:
        for name in NAMES:
            child = [sys.executable, "-m", "benchmarks.big_texts", *sys.argv[1:], "--child", name, kind]
            done = subprocess.run(child, capture_output=True, text=True, check=True)
            megabytes, seconds, tokens = json.loads(done.stdout)
            table.add_row(name, kind, f"{megabytes:,.0f}", f"{seconds:.2f}", f"{tokens:,}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
