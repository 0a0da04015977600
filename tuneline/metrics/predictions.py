"""Files of predictions: one row for each row of a split, with its label, logits and prediction."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.core.files import replace_file
from tuneline.core.tables import ROW_GROUP, LabelSchema, predictions_schema, write_batches
from tuneline.metrics.scores import predictions_of


def write_predictions(path: Path, labels: NDArray[Any], logits: NDArray[np.float32], label_schema: LabelSchema) -> None:
    """Write predictions in the order of the rows; labels have the shape ``(rows,)``, logits ``(rows, outputs)``."""
    schema = predictions_schema(label_schema)

    def batch(start: int) -> pa.RecordBatch:
        known, some = labels[start:][:ROW_GROUP], logits[start:][:ROW_GROUP]
        lists = pa.FixedSizeListArray.from_arrays(pa.array(some.ravel()), some.shape[1]).cast(pa.list_(pa.float32()))
        rows, predictions = np.arange(start, start + len(known)), predictions_of(some, label_schema)
        return pa.record_batch([pa.array(rows), pa.array(known), lists, pa.array(predictions)], schema=schema)

    with replace_file(path) as partial:
        write_batches(partial, schema, map(batch, range(0, len(labels), ROW_GROUP)))
