"""Turns the raw splits into ids, once, before anything else reads them.

Reads: ``data/raw/*.parquet``, the sections ``tokenize`` and ``data.text_columns``; ``model``, for what a model made from scratch takes.
Computes: a tokenizer (of a checkpoint, or WordPiece trained on the train split), and the ids of every row. Long texts are cut;
nothing is padded: the collator does that.
Writes: ``data/tokenized/{train,validation,test}.parquet``, ``data/tokenized/tokenizer/``, ``data/tokenized/source.json`` (where the
tokenizer came from, down to the commit), ``metrics/tokenize.json``.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from tqdm import tqdm

from stages.tokenize.rows import RawSplit
from tuneline.files import replace_directory, write_json, write_metrics
from tuneline.files.schemas import LABELS, tokenized_schema, write_batches
from tuneline.params import ModelParams, TokenizeParams
from tuneline.params.loading import load_params
from tuneline.paths import METRICS, RAW, SPLITS, TOKENIZED, TOKENIZER, split_file
from tuneline.stage import Figures, require, run_stage

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from tuneline.encoding import Counts, Encoder


def run(params: TokenizeParams, model: ModelParams, text_columns: Sequence[str], raw: Path, target: Path) -> dict[str, "Counts"]:
    """Tokenizes every split.

    Args:
        params: The section ``tokenize``.
        model: The section ``model``.
        text_columns: One or two columns of text.
        raw: Folder of the raw splits.
        target: Empty folder for the tokenized ones and the tokenizer.

    Returns:
        What was seen, by split.

    Raises:
        StageError: The tokenizer cannot be had, or ``max_length`` does not suit it; or a raw split is not as it should be.
    """
    from stages.tokenize.folder import save_tokenizer
    from tuneline.encoding import Encoder

    sources = {split: RawSplit(split_file(raw, split), text_columns) for split in SPLITS}
    params = pinned(params)
    tokenizer = build_tokenizer(params, model, sources["train"])
    encoders = {split: Encoder(tokenizer, params.max_length, pairs=len(text_columns) == 2) for split in SPLITS}
    for split, encoder in encoders.items():
        tokenize_split(encoder, sources[split], split_file(target, split))
    save_tokenizer(tokenizer, params.max_length, target / TOKENIZER.name)
    write_json(target / "source.json", {"tokenizer": provenance(params)})
    return {split: encoder.counts for split, encoder in encoders.items()}


def pinned(params: TokenizeParams) -> TokenizeParams:
    """The same, with the commit that a branch or tag of the hub stands for.

    Raises:
        StageError: The hub does not have it, or cannot be reached.
    """
    from stages.tokenize.checkpoint import commit_of

    return params if params.tokenizer is None else params.model_copy(update={"revision": commit_of(params.tokenizer, params.revision)})


def provenance(params: TokenizeParams) -> dict[str, str | None]:
    """Where the tokenizer came from, for ``data/tokenized/source.json``. A folder's path is this machine's: it is not told."""
    if params.tokenizer is None:
        return {"from": "the train split"}
    if params.revision is None:
        return {"from": "a folder"}
    return {"from": "hub", "name": params.tokenizer, "commit": params.revision}


def build_tokenizer(params: TokenizeParams, model: ModelParams, train: RawSplit) -> "PreTrainedTokenizerFast":
    """Loads the tokenizer, or trains it on ``train``, and checks that ``max_length`` suits it and the model.

    Raises:
        StageError: It cannot be had, or ``max_length`` is too long or too short.
    """
    from stages.tokenize.checkpoint import length_limit, load_tokenizer
    from stages.tokenize.limits import check_length, positions_of
    from stages.tokenize.segments import has_segments
    from stages.tokenize.wordpiece import train_wordpiece

    limit = None
    if params.tokenizer is None:
        tokenizer = train_wordpiece(train.texts, params.vocab_size)
    else:
        tokenizer = load_tokenizer(params.tokenizer, params.revision)
        limit = length_limit(tokenizer, params.tokenizer, params.revision)
    if model.checkpoint is None:
        limit = positions_of(model.config)
        tokenizer.model_input_names = input_names(tokenizer, has_segments(model.config))
    texts = len(train.text_columns)
    check_length(params.max_length, limit, tokenizer.num_special_tokens_to_add(pair=texts == 2), texts)
    return tokenizer


def input_names(tokenizer: "PreTrainedTokenizerFast", segments: bool) -> list[str]:
    """The tokenizer's outputs that the model reads."""
    return [name for name in tokenizer.model_input_names if segments or name != "token_type_ids"]


def tokenize_split(encoder: "Encoder", source: RawSplit, target: Path) -> None:
    """Encodes one file into another, in bounded memory."""
    from tuneline.encoding import encode_rows

    schema = tokenized_schema(encoder.token_type_ids, source.labels)
    rows = source.batches([*source.text_columns, LABELS])
    with tqdm(total=source.rows, desc=source.path.stem, unit="row", disable=None) as bar:
        write_batches(target, schema, _counted(encode_rows(encoder, rows, source.text_columns, schema), bar))


def _counted(batches: Iterator[pa.RecordBatch], bar: "tqdm[None]") -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch
        bar.update(batch.num_rows)


def main() -> Figures:
    """Reads the parameters, tokenizes, and writes the outs."""
    params = load_params()
    for split in SPLITS:
        require(split_file(RAW, split), made_by="download")
    started = time.perf_counter()
    with replace_directory(TOKENIZED) as partial:
        counts = run(params.tokenize, params.model, params.data.text_columns, RAW, partial)
    seconds = time.perf_counter() - started
    total = sum(counts.values(), start=type(counts["train"])())
    by_split = {name: value for split, count in counts.items() for name, value in count.metrics(f"{split}_").items()}
    write_metrics(METRICS / "tokenize.json", {**total.metrics(), **by_split})
    return {"rows_per_second": round(total.rows / seconds), "tokens_per_second": round(total.tokens / seconds)}


if __name__ == "__main__":
    run_stage("tokenize", main)
