"""Fit the simple models that a trained one must beat, and predict with them: the majority, TF-IDF, and the frozen checkpoint.

Reads: ``data/raw/``; with a checkpoint, also ``models/base/model/`` and the tokenizer in ``data/tokenized/``.
Computes: for each model, the predictions on the validation split and on the reported one. The train split is
sampled within limits. Writes: ``reports/baselines/SPLIT.parquet``, one column for each model; the stage
``evaluate`` scores them beside the trained model.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tuneline.analysis.baselines import Predict, majority_model, tfidf_model
from tuneline.core.atomic_files import replace_directory
from tuneline.core.paths import BASE_MODEL, BASELINES, RAW, TOKENIZER, split_file
from tuneline.core.stage import require, run_stage
from tuneline.core.tables import SplitReader, baselines_schema, check_text_columns, rebatch, write_batches
from tuneline.core.terminal import phase, progress
from tuneline.model.frozen_baselines import FrozenEncoder, fit_frozen_baselines
from tuneline.params import Params
from tuneline.params.loading import load_params
from tuneline.tasks import read_task


def frozen_models(train: SplitReader, params: Params) -> Predict:
    """Return the linear models of the checkpoint's vectors."""
    phase("loading the checkpoint")
    encoder = FrozenEncoder.load(require(BASE_MODEL, made_by="base"), require(TOKENIZER, made_by="tokenize"))
    validation = SplitReader.open(RAW, "validation", made_by="download")
    return fit_frozen_baselines(encoder, (train, validation), params.data.text_columns, params.seed).predict


def baseline_predictions(
    split: SplitReader, columns: Sequence[str], models: Sequence[Predict], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the predictions of all models for the rows of a split; in the same batches, whatever the number of its files."""
    texts_schema = pa.schema([split.schema.field(name) for name in columns])
    for batch in rebatch(
        (batch.replace_schema_metadata(None) for batch in split.batches(columns)), texts_schema
    ):
        texts = [column.to_pylist() for column in batch.columns]
        found = {name: values for predict in models for name, values in predict(texts).items()}
        yield pa.record_batch(
            [pa.array(found[name], type=schema.field(name).type) for name in schema.names], schema=schema
        )


def main() -> None:
    """Fit every model, and write its predictions."""
    params = load_params()
    train = SplitReader.open(RAW, "train", made_by="download")
    check_text_columns(train, params.data.text_columns)
    labels = read_task(train.schema)
    names = ["majority", "tfidf"]
    with progress("baseline"):
        models = [
            majority_model(train, labels),
            tfidf_model(train, params.data.text_columns, labels, params.seed),
        ]
        if params.model.checkpoint is not None:
            models.append(frozen_models(train, params))
            names += ["frozen", "cosine"][: len(params.data.text_columns)]
        with replace_directory(BASELINES) as folder:
            for split in dict.fromkeys(("validation", params.evaluate.split)):
                phase(f"predicting {split}")
                schema = baselines_schema(labels, names)
                rows = SplitReader.open(RAW, split, made_by="download")
                write_batches(
                    split_file(folder, split),
                    schema,
                    baseline_predictions(rows, params.data.text_columns, models, schema),
                )


if __name__ == "__main__":
    run_stage("baseline", main)
