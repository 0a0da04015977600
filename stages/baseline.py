"""Fit the simple models that a trained one must beat, and predict with them.

The models: the majority, TF-IDF, and linear models on the frozen checkpoint.
Reads: ``data/raw/``; with a checkpoint, also ``models/base/model/`` and the tokenizer in
``data/tokenized/``.
Computes: for each model, the predictions on the validation split and on the reported one. The train split
is sampled within limits.
Writes: ``reports/baselines/SPLIT.parquet``, one column for each model; the stage ``evaluate`` scores them
beside the trained model.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from tuneline.core.params import Params
from tuneline.core.params.loading import load_params
from tuneline.core.paths import BASE_MODEL, BASELINES, RAW, TOKENIZER, split_file
from tuneline.core.runtime.files import replace_directory
from tuneline.core.runtime.terminal import phase, progress
from tuneline.core.stage.entry import require, run_stage
from tuneline.core.stage.tables import SplitReader, check_text_columns, rebatch
from tuneline.judge.metrics.predictions import write_baselines
from tuneline.model.linear.frozen import FrozenEncoder, fit_frozen_baselines
from tuneline.model.linear.texts import Predict, majority_model, tfidf_model
from tuneline.model.tasks.columns import read_task
from tuneline.model.tasks.task import Labels


def frozen_models(train: SplitReader, params: Params) -> Predict:
    """Return the linear models of the checkpoint's vectors."""
    phase("loading the checkpoint")
    checkpoint = require(BASE_MODEL, made_by="base")
    tokenizer = require(TOKENIZER, made_by="tokenize")
    encoder = FrozenEncoder.load(checkpoint, tokenizer)

    validation = SplitReader.open(RAW, "validation", made_by="download")
    columns = params.data.text_columns
    return fit_frozen_baselines(encoder, (train, validation), columns, params.seed).predict


def baseline_predictions(
    split: SplitReader, columns: Sequence[str], models: Sequence[Predict]
) -> Iterator[Mapping[str, Labels]]:
    """Yield the predictions of all models for the rows of a split, batch by batch, by name."""
    # without the metadata of the file, as the batches are
    texts_schema = pa.schema([split.schema.field(name) for name in columns])

    # in the same batches, whatever the number of files: a model may round differently in another batch
    for batch in rebatch(_without_metadata(split, columns), texts_schema):
        texts = [column.to_pylist() for column in batch.columns]
        predictions = {}
        for predict in models:
            predictions.update(predict(texts))
        yield predictions


def _without_metadata(split: SplitReader, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a split without the metadata of their file, which the schema lacks."""
    for batch in split.batches(columns):
        yield batch.replace_schema_metadata(None)


def main() -> None:
    """Fit every model, and write its predictions."""
    params = load_params()
    train = SplitReader.open(RAW, "train", made_by="download")
    check_text_columns(train, params.data.text_columns)
    labels = read_task(train.schema)
    columns = params.data.text_columns

    with progress("baseline"):
        # models
        names = ["majority", "tfidf"]
        models = [
            majority_model(train, labels),
            tfidf_model(train, columns, labels, params.seed),
        ]
        if params.model.checkpoint is not None:
            models.append(frozen_models(train, params))
            names.append("frozen")
            if len(columns) == 2:  # of two texts, also the similarity of their vectors
                names.append("cosine")

        # predictions; the reported split may be the validation split
        with replace_directory(BASELINES) as folder:
            for split in dict.fromkeys(("validation", params.evaluate.split)):
                phase(f"predicting {split}")
                rows = SplitReader.open(RAW, split, made_by="download")
                predictions = baseline_predictions(rows, columns, models)
                write_baselines(split_file(folder, split), labels, names, predictions)


if __name__ == "__main__":
    run_stage("baseline", main)
