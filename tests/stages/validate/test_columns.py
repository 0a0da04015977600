import pyarrow as pa
import pyarrow.parquet as pq

from stages.validate.columns import read_batches
from tuneline.core.tables import SplitReader


def test_read_batches_yields_one_empty_batch_for_a_file_without_rows(tmp_path):
    pq.write_table(pa.table({"number": pa.array([], pa.int64())}), tmp_path / "train.parquet")
    (batch,) = read_batches(SplitReader.open(tmp_path, "train", "download"))
    assert (batch.num_rows, batch.schema.names) == (0, ["number"])
