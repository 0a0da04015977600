"""Convert the raw splits to token ids.

Reads: ``data/raw/*.parquet``, ``models/base/``; the parameters ``tokenize``, ``data.text_columns`` and, for a
model made from scratch, ``model.config``. Computes: a tokenizer (from ``models/base/tokenizer/``, or
WordPiece trained on the train split) and the token ids of every row. Long texts are truncated, lose their
middle, or are divided into windows (``tokenize.long_text``); nothing is padded, because the collator pads
each batch. Each raw file is a task of its own (``run.engine``), and what a killed run has finished is not
done again. Writes: ``data/tokenized/`` with one file for each raw file, ``data/tokenized/tokenizer/``,
``metrics/tokenize.json``.
"""

import json
import shutil
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from stages.tokenize.tokenizer import (
    TRAINING_ROWS,
    RawTexts,
    SavedTokenizer,
    Shard,
    check_length,
    check_stride,
    tokenize_shard,
    train_wordpiece,
)
from tuneline.core.hashes import content_key
from tuneline.core.launch import check_launch
from tuneline.core.provenance import stage_provenance, write_provenance
from tuneline.core.records import Metrics, write_record
from tuneline.core.sources import BaseSource
from tuneline.core.stage import Measurements, run_stage
from tuneline.core.tables import SplitReader, shard_file
from tuneline.core.tokenizer_files import TOKENIZER_JSON
from tuneline.engines import map_tasks
from tuneline.model.architectures import has_token_type_ids, read_base, token_limit
from tuneline.model.encoded_columns import EncodingCounts
from tuneline.model.long_text import LongText
from tuneline.model.tokenizer import checkpoint_limit, load_tokenizer, save_tokenizer
from tuneline.params import Params
from tuneline.params.loading import load_params
from tuneline.paths import BASE_RECORD, BASE_TOKENIZER, METRICS, RAW, SPLITS, TOKENIZED, TOKENIZER
from tuneline.runtime.atomic_files import replace_directory, write_json
from tuneline.runtime.resumable import resumable_directory
from tuneline.runtime.terminal import say

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

LIBRARIES = ("pyarrow", "tokenizers", "transformers")
"""Libraries that the outs depend on."""
STATE = "state"
"""Folder of what is known of the tokenizer and of the finished files, while the stage runs."""


def tokenize_splits(
    params: Params, base: BaseSource, splits: Mapping[str, SplitReader], target: Path
) -> tuple[EncodingCounts, EncodingCounts]:
    """Tokenize every split into a folder, which may have splits and a tokenizer that are finished.

    Return the counts of all rows and tokens, and the counts of the rows that were not finished.
    """
    # tokenizer
    train = RawTexts(splits["train"], params.data.text_columns)
    tokenizer = saved_tokenizer(params, base, train, target)

    # rows
    shards = shards_of(params, splits, tokenizer, target)
    unfinished = [shard for shard in shards if not shard.counts.exists()]
    finished = len(shards) - len(unfinished)
    if finished:
        say(
            f"tokenize: {finished} of {len(shards)} files were finished by a run that was ended; it continues"
            " with the others."
        )
    results = map_tasks(tokenize_shard, unfinished, params.run, name="tokenize")
    done = sum(results, start=EncodingCounts())

    # counts: also of the files that an earlier run finished
    counts = EncodingCounts()
    for shard in shards:
        counts += EncodingCounts(**json.loads(shard.counts.read_bytes()))
    shutil.rmtree(target / STATE)
    return counts, done


def saved_tokenizer(params: Params, base: BaseSource, train: RawTexts, target: Path) -> SavedTokenizer:
    """Load or train the tokenizer and save it, or return the one that a run that was ended has saved."""
    folder = target / TOKENIZER.name
    record = target / STATE / "tokenizer.json"
    if not record.exists():
        tokenizer = build_tokenizer(params, base, train)
        with replace_directory(folder) as new:
            save_tokenizer(tokenizer, params.tokenize.max_length, new, LongText.of(params.tokenize))
        # last: the tokenizer is finished where the record exists
        attributes = {
            "truncation_side": tokenizer.truncation_side,
            "unk_token_id": tokenizer.unk_token_id,
            "model_input_names": tokenizer.model_input_names,
        }
        write_json(record, attributes)
    return SavedTokenizer(folder / TOKENIZER_JSON, **json.loads(record.read_bytes()))


def build_tokenizer(params: Params, base: BaseSource, train: RawTexts) -> "PreTrainedTokenizerFast":
    """Load the tokenizer, or train it on ``train``, and check that ``max_length`` suits it and the model."""
    limit = None
    if base.tokenizer is None:
        tokenizer = train_wordpiece(partial(train.texts, TRAINING_ROWS), params.tokenize.vocab_size)
    else:
        tokenizer = load_tokenizer(BASE_TOKENIZER, base.tokenizer.name)
        limit = checkpoint_limit(BASE_TOKENIZER)

    # a model made from scratch has the limit and the inputs of its configuration
    if base.checkpoint is None:
        config = params.model.config
        limit = token_limit(config)
        if not has_token_type_ids(config):
            inputs = tokenizer.model_input_names
            tokenizer.model_input_names = [name for name in inputs if name != "token_type_ids"]

    texts = len(train.text_columns)
    special_tokens = tokenizer.num_special_tokens_to_add(pair=texts == 2)
    check_length(params.tokenize.max_length, limit, special_tokens, texts)
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
                counts=target / STATE / f"{raw.stem}.json",
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

    # the key of everything that determines the result: files of a run with another one are not taken over
    inputs: list[Path] = []
    for reader in splits.values():
        inputs += reader.paths
    inputs.append(BASE_RECORD)
    inputs += sorted(path for path in BASE_TOKENIZER.rglob("*") if path.is_file())
    key = content_key(stage_provenance("tokenize", LIBRARIES).model_dump(mode="json"), files=inputs)

    with resumable_directory(TOKENIZED, key) as folder:
        counts, done = tokenize_splits(params, base, splits, folder)
    seconds = time.perf_counter() - started

    write_record(METRICS / "tokenize.json", Metrics.of(counts.metrics()))
    return {"rows_per_second": round(done.rows / seconds), "tokens_per_second": round(done.tokens / seconds)}


if __name__ == "__main__":
    run_stage("tokenize", main, partial(write_provenance, "tokenize", LIBRARIES))
