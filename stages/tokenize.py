"""Convert the raw splits to token ids.

Reads: ``data/raw/*.parquet``, ``models/base/``; the parameters ``tokenize``, ``data.text_columns`` and, for a
model made from scratch, ``model.config``. Computes: a tokenizer (from ``models/base/tokenizer/``, or
WordPiece trained on the train split) and the token ids of every row. Long texts are truncated, or divided
into windows (``tokenize.long_text``); nothing is padded, because the collator pads each batch. Each raw file
is a task of its own (``run.engine``). Writes: ``data/tokenized/`` with one file for each raw file,
``data/tokenized/tokenizer/``, ``metrics/tokenize.json``.
"""

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tuneline.core.params import Params
from tuneline.core.params.loading import load_params
from tuneline.core.paths import BASE_TOKENIZER, METRICS, RAW, SPLITS, TOKENIZED, TOKENIZER
from tuneline.core.runtime.files import replace_directory
from tuneline.core.stage.engines import map_tasks
from tuneline.core.stage.entry import Measurements, run_stage
from tuneline.core.stage.launch import check_launch
from tuneline.core.stage.provenance import BaseSource, write_provenance
from tuneline.core.stage.records import Metrics, write_record
from tuneline.core.stage.tables import SplitReader, shard_file
from tuneline.model.tokens.architectures import has_token_type_ids, read_base, token_limit
from tuneline.model.tokens.encoded_columns import EncodingCounts
from tuneline.model.tokens.long_text import LongText
from tuneline.model.tokens.tokenizer import checkpoint_limit, load_tokenizer, save_tokenizer
from tuneline.model.tokens.tokenizer_settings import TOKENIZER_JSON
from tuneline.model.tokens.wordpiece import (
    TRAINING_ROWS,
    SavedTokenizer,
    Shard,
    check_length,
    check_stride,
    tokenize_shard,
    train_wordpiece,
    training_texts,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

LIBRARIES = ("pyarrow", "tokenizers", "transformers")
"""Libraries that the outs depend on."""


def tokenize_splits(
    params: Params, base: BaseSource, splits: Mapping[str, SplitReader], target: Path
) -> EncodingCounts:
    """Tokenize every split into a folder, and return the counts of all rows and tokens."""
    # tokenizer
    tokenizer = build_tokenizer(params, base, splits["train"])
    folder = target / TOKENIZER.name
    save_tokenizer(tokenizer, params.tokenize.max_length, folder, LongText.of(params.tokenize))
    saved = SavedTokenizer(
        path=folder / TOKENIZER_JSON,
        truncation_side=tokenizer.truncation_side,
        unk_token_id=tokenizer.unk_token_id,
        model_input_names=tokenizer.model_input_names,
    )

    # rows
    shards = shards_of(params, splits, saved, target)
    return sum(map_tasks(tokenize_shard, shards, params.run, name="tokenize"), start=EncodingCounts())


def build_tokenizer(params: Params, base: BaseSource, train: SplitReader) -> "PreTrainedTokenizerFast":
    """Load the tokenizer, or train it on ``train``, and check that ``max_length`` suits it and the model."""
    if base.checkpoint is not None:
        tokenizer = load_tokenizer(BASE_TOKENIZER, base.checkpoint.name)
        limit = checkpoint_limit(BASE_TOKENIZER)
    else:
        texts = partial(training_texts, train, params.data.text_columns, TRAINING_ROWS)
        tokenizer = train_wordpiece(texts, params.tokenize.vocab_size)
        # a model made from scratch has the limit and the inputs of its configuration
        config = params.model.config
        limit = token_limit(config)
        if not has_token_type_ids(config):
            inputs = tokenizer.model_input_names
            tokenizer.model_input_names = [name for name in inputs if name != "token_type_ids"]

    text_count = len(params.data.text_columns)
    special_tokens = tokenizer.num_special_tokens_to_add(pair=text_count == 2)
    check_length(params.tokenize.max_length, limit, special_tokens, text_count)
    if params.tokenize.long_text == "windows":
        check_stride(params.tokenize.windows.stride, params.tokenize.max_length, special_tokens)
    return tokenizer


def shards_of(
    params: Params, splits: Mapping[str, SplitReader], tokenizer: SavedTokenizer, target: Path
) -> list[Shard]:
    """Return the tasks: one for each raw file."""
    shards = []
    for split, reader in splits.items():
        for number, raw in enumerate(reader.paths):
            shard = Shard(
                split=split,
                raw=raw,
                tokenized=shard_file(target, split, number, len(reader.paths)),
                tokenizer=tokenizer,
                text_columns=params.data.text_columns,
                max_length=params.tokenize.max_length,
                long_text=LongText.of(params.tokenize),
            )
            shards.append(shard)
    return shards


def main() -> Measurements:
    """Read the parameters, tokenize the splits, write splits and metrics."""
    params = load_params()
    check_launch(params.train.launch)  # an error found here costs no data stages
    splits = {split: SplitReader.open(RAW, split, made_by="download") for split in SPLITS}
    base = read_base(params)
    started = time.perf_counter()

    with replace_directory(TOKENIZED) as folder:
        counts = tokenize_splits(params, base, splits, folder)
    seconds = time.perf_counter() - started

    write_record(METRICS / "tokenize.json", Metrics.of(counts.metrics()))
    return {
        "rows_per_second": round(counts.rows / seconds),
        "tokens_per_second": round(counts.tokens / seconds),
    }


if __name__ == "__main__":
    run_stage("tokenize", main, partial(write_provenance, "tokenize", LIBRARIES))
