"""Convert the raw splits to token ids.

Reads: ``data/raw/*.parquet``, ``models/base/``; the parameters ``tokenize``, ``data.text_columns`` and, for a
model made from scratch, ``model.config``. Computes: a tokenizer (that in ``models/base/tokenizer/``, or
WordPiece trained on the train split) and the token ids of every row. Long texts are truncated; nothing is
padded, because the collator pads each batch. Each raw file is a task of its own (``run.engine``), and what a
killed run has finished is not done again. Writes: ``data/tokenized/`` with one file for each raw file,
``data/tokenized/tokenizer/``, ``metrics/tokenize.json``.
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
    save_tokenizer,
    tokenize_shard,
    train_wordpiece,
)
from tuneline.core.atomic_files import replace_directory, write_json
from tuneline.core.base_source import BaseSource
from tuneline.core.hashes import content_key
from tuneline.core.launch import check_launch
from tuneline.core.paths import BASE_RECORD, BASE_TOKENIZER, METRICS, RAW, SPLITS, TOKENIZED, TOKENIZER
from tuneline.core.provenance import stage_provenance
from tuneline.core.records import Metrics
from tuneline.core.resumable import resumable_directory
from tuneline.core.stage import Measurements, run_stage
from tuneline.core.tables import SplitReader, shard_file
from tuneline.core.terminal import say
from tuneline.engines import map_tasks
from tuneline.model.architectures import (
    checkpoint_limit,
    has_token_type_ids,
    load_tokenizer,
    read_base,
    token_limit,
)
from tuneline.model.encoding import EncodingCounts
from tuneline.params import Params
from tuneline.params.loading import load_params

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

LIBRARIES = ("pyarrow", "tokenizers", "transformers")
"""Libraries that the outs depend on."""
STATE = "state"
"""Folder of what is known of the tokenizer and of the finished files, while the stage runs."""


def tokenize_splits(
    params: Params, base: BaseSource, splits: Mapping[str, SplitReader], target: Path
) -> tuple[dict[str, EncodingCounts], EncodingCounts]:
    """Tokenize every split into a folder, which may have splits and a tokenizer that are finished.

    Return the counts of rows and tokens by split, and those of the rows that were not finished.
    """
    train = RawTexts(splits["train"], params.data.text_columns)
    shards = shards_of(params, splits, saved_tokenizer(params, base, train, target), target)
    unfinished = [shard for shard in shards if not shard.counts.exists()]
    if finished := len(shards) - len(unfinished):
        say(
            f"tokenize: {finished} of {len(shards)} files were finished by a run that was ended; it continues"
            " with the others."
        )
    done = sum(map_tasks(tokenize_shard, unfinished, params.run, name="tokenize"), start=EncodingCounts())
    counts = dict.fromkeys(splits, EncodingCounts())
    for shard in shards:
        counts[shard.split] += EncodingCounts(**json.loads(shard.counts.read_bytes()))
    shutil.rmtree(target / STATE)
    return counts, done


def saved_tokenizer(params: Params, base: BaseSource, train: RawTexts, target: Path) -> SavedTokenizer:
    """Load or train the tokenizer and save it, or return the one that a run that was ended has saved."""
    folder, record = target / TOKENIZER.name, target / STATE / "tokenizer.json"
    if not record.exists():
        tokenizer = build_tokenizer(params, base, train)
        with replace_directory(folder) as new:
            save_tokenizer(tokenizer, params.tokenize.max_length, new)
        write_json(
            record,
            {
                name: getattr(tokenizer, name)
                for name in ("truncation_side", "unk_token_id", "model_input_names")
            },
        )
    return SavedTokenizer(folder / "tokenizer.json", **json.loads(record.read_bytes()))


def build_tokenizer(params: Params, base: BaseSource, train: RawTexts) -> "PreTrainedTokenizerFast":
    """Load the tokenizer, or train it on ``train``, and check that ``max_length`` suits it and the model."""
    limit, config = None, params.model.config
    if base.tokenizer is None:
        tokenizer = train_wordpiece(partial(train.texts, TRAINING_ROWS), params.tokenize.vocab_size)
    else:
        tokenizer = load_tokenizer(BASE_TOKENIZER, base.tokenizer.name)
        limit = checkpoint_limit(tokenizer, BASE_TOKENIZER)
    if base.checkpoint is None:
        limit = token_limit(config)
        if not has_token_type_ids(config):
            tokenizer.model_input_names = [
                name for name in tokenizer.model_input_names if name != "token_type_ids"
            ]
    texts = len(train.text_columns)
    check_length(
        params.tokenize.max_length, limit, tokenizer.num_special_tokens_to_add(pair=texts == 2), texts
    )
    return tokenizer


def shards_of(
    params: Params, splits: Mapping[str, SplitReader], tokenizer: SavedTokenizer, target: Path
) -> list[Shard]:
    """Return the tasks: one for each raw file."""
    shards = []
    for split, reader in splits.items():
        for number, raw in enumerate(reader.paths):
            tokenized, counts = (
                shard_file(target, split, number, len(reader.paths)),
                target / STATE / f"{raw.stem}.json",
            )
            shards.append(
                Shard(
                    split,
                    raw,
                    tokenized,
                    counts,
                    tokenizer,
                    params.data.text_columns,
                    params.tokenize.max_length,
                )
            )
    return shards


def main() -> Measurements:
    """Read the parameters, tokenize the splits, write splits and metrics."""
    params = load_params()
    check_launch(params.train.launch, params.train.optimizer)
    splits = {split: SplitReader.open(RAW, split, made_by="download") for split in SPLITS}
    base = read_base(params)
    started = time.perf_counter()
    inputs = [path for reader in splits.values() for path in reader.paths]
    inputs += [BASE_RECORD, *sorted(path for path in BASE_TOKENIZER.rglob("*") if path.is_file())]
    key = content_key(stage_provenance("tokenize", LIBRARIES).model_dump(mode="json"), files=inputs)
    with resumable_directory(TOKENIZED, key) as folder:
        counts, done = tokenize_splits(params, base, splits, folder)
    seconds = time.perf_counter() - started
    total = sum(counts.values(), start=EncodingCounts())
    by_split = {
        name: value for split, count in counts.items() for name, value in count.metrics(f"{split}_").items()
    }
    Metrics.of({**total.metrics(), **by_split}).write(METRICS / "tokenize.json")
    return {"rows_per_second": round(done.rows / seconds), "tokens_per_second": round(done.tokens / seconds)}


if __name__ == "__main__":
    run_stage("tokenize", main, libraries=LIBRARIES)
