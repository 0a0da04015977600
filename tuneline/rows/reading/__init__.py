"""Readers of CSV, TSV, JSON Lines and Parquet files, plain or gzip.

They need constant memory, and give each row with its line or row number.

``inputs`` joins the formats, ``labelled`` makes texts and labels of their values. A row that cannot be read
is a ``RowProblem`` among the rows, so that the caller decides whether to stop or to skip it. A file that
cannot be read raises a ``DataError``.
"""
