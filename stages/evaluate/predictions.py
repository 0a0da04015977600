"""The table of predictions: one row for each row of the reported split, in its order."""

import json

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.batches import TokenizedSplit
from tuneline.files.schemas import LabelSchema
from tuneline.metrics import predictions_of


def predictions_table(split: TokenizedSplit, logits: NDArray[np.float32]) -> pa.Table:
    """Builds ``reports/predictions.parquet``.

    Args:
        split: The rows that were predicted.
        logits: Shape ``[rows, outputs]``.

    Returns:
        ``idx`` (position in the split's file), ``label``, ``logits``, ``prediction``; class names in the schema, as the datasets
        library writes them.
    """
    columns = {
        "idx": np.arange(len(split), dtype=np.int64),
        "label": split.labels,
        "logits": pa.FixedSizeListArray.from_arrays(pa.array(logits.ravel()), logits.shape[1]).cast(pa.list_(pa.float32())),
        "prediction": predictions_of(logits, split.label_schema),
    }
    return pa.table(columns, schema=predictions_schema(split.label_schema))


def predictions_schema(labels: LabelSchema) -> pa.Schema:
    """Schema of the table."""
    fields = [
        pa.field("idx", pa.int64()),
        pa.field("label", labels.type),
        pa.field("logits", pa.list_(pa.float32())),
        pa.field("prediction", labels.type),
    ]
    answer = {"dtype": "float32", "_type": "Value"} if labels.names is None else {"names": list(labels.names), "_type": "ClassLabel"}
    features = {
        "idx": {"dtype": "int64", "_type": "Value"},
        "label": answer,
        "logits": {"feature": {"dtype": "float32", "_type": "Value"}, "_type": "List"},
        "prediction": answer,
    }
    return pa.schema(fields, metadata={"huggingface": json.dumps({"info": {"features": features}})})
