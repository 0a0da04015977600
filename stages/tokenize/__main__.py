"""Convert the raw splits to token ids.

Reads: ``data/raw/*.parquet``, ``models/base/``; the parameters ``tokenize``, ``data.text_columns`` and, for a model made from scratch,
``model.config``.
Computes: a tokenizer (that in ``models/base/tokenizer/``, or WordPiece trained on the train split) and the token ids of every row. Long
texts are truncated; nothing is padded, because the collator pads each batch.
Writes: ``data/tokenized/{train,validation,test}.parquet``, ``data/tokenized/tokenizer/``, ``metrics/tokenize.json``.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from stages.tokenize.rows import RawSplit
from tuneline.architectures import has_token_type_ids, token_limit
from tuneline.base import read_base
from tuneline.files import replace_directory
from tuneline.files.schemas import LABELS, tokenized_schema, write_batches
from tuneline.launch import check_launch
from tuneline.params import Params
from tuneline.params.loading import load_params
from tuneline.paths import BASE_TOKENIZER, METRICS, RAW, SPLITS, TOKENIZED, TOKENIZER, split_file
from tuneline.records.metrics import Metrics
from tuneline.records.source import BaseSource
from tuneline.stage import Measurements, require, run_stage
from tuneline.terminal import Progress, progress

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from tuneline.encoding import Counts, Encoder


def run(params: Params, base: BaseSource, raw: Path, target: Path) -> dict[str, "Counts"]:
    """Tokenize every split.

    Args:
        params: All parameters.
        base: What is in ``models/base/``.
        raw: Folder of the raw splits.
        target: Empty folder for the tokenized splits and the tokenizer.

    Returns:
        Counts of rows and tokens by split.

    Raises:
        StageError: The tokenizer cannot be loaded, ``max_length`` does not suit it, or a raw split is invalid.
    """
    from stages.tokenize.tokenizer import save_tokenizer
    from tuneline.encoding import Encoder

    text_columns, max_length = params.data.text_columns, params.tokenize.max_length
    sources = {split: RawSplit(split_file(raw, split), text_columns) for split in SPLITS}
    tokenizer = build_tokenizer(params, base, sources["train"])
    encoders = {split: Encoder(tokenizer, max_length, pairs=len(text_columns) == 2) for split in SPLITS}
    for split, encoder in encoders.items():
        tokenize_split(encoder, sources[split], split_file(target, split))
    save_tokenizer(tokenizer, max_length, target / TOKENIZER.name)
    return {split: encoder.counts for split, encoder in encoders.items()}


def build_tokenizer(params: Params, base: BaseSource, train: RawSplit) -> "PreTrainedTokenizerFast":
    """Load the tokenizer, or train it on ``train``, and check that ``max_length`` suits it and the model.

    Raises:
        StageError: The tokenizer cannot be loaded or trained, or ``max_length`` is too long or too short.
    """
    from stages.tokenize.tokenizer import check_length, train_wordpiece
    from tuneline.tokenizer import checkpoint_limit, load_tokenizer

    limit, config = None, params.model.config
    if base.tokenizer is None:
        tokenizer = train_wordpiece(train.texts, params.tokenize.vocab_size)
    else:
        tokenizer = load_tokenizer(BASE_TOKENIZER, base.tokenizer.name)
        limit = checkpoint_limit(tokenizer, BASE_TOKENIZER)
    if base.checkpoint is None:
        limit = token_limit(config)
        if not has_token_type_ids(config):
            tokenizer.model_input_names = [name for name in tokenizer.model_input_names if name != "token_type_ids"]
    texts = len(train.text_columns)
    check_length(params.tokenize.max_length, limit, tokenizer.num_special_tokens_to_add(pair=texts == 2), texts)
    return tokenizer


def tokenize_split(encoder: "Encoder", source: RawSplit, target: Path) -> None:
    """Encode one raw Parquet file into a tokenized one, in bounded memory."""
    from tuneline.encoding import encode_rows

    schema = tokenized_schema(encoder.token_type_ids, source.labels)
    rows = source.batches([*source.text_columns, LABELS])
    with progress(f"tokenize: {source.path.stem}", source.rows) as step:
        write_batches(target, schema, _counted(encode_rows(encoder, rows, source.text_columns, schema), step))


def _counted(batches: Iterator[pa.RecordBatch], step: Progress) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch
        step.advance(batch.num_rows)


def main() -> Measurements:
    """Read the parameters, tokenize the splits, write splits and metrics."""
    params = load_params()
    check_launch(params.train)
    for split in SPLITS:
        require(split_file(RAW, split), made_by="download")
    started = time.perf_counter()
    with replace_directory(TOKENIZED) as partial:
        counts = run(params, read_base(params), RAW, partial)
    seconds = time.perf_counter() - started
    total = sum(counts.values(), start=type(counts["train"])())
    by_split = {name: value for split, count in counts.items() for name, value in count.metrics(f"{split}_").items()}
    Metrics.of({**total.metrics(), **by_split}).write(METRICS / "tokenize.json")
    return {"rows_per_second": round(total.rows / seconds), "tokens_per_second": round(total.tokens / seconds)}


if __name__ == "__main__":
    run_stage("tokenize", main, libraries=("pyarrow", "tokenizers", "transformers"))
