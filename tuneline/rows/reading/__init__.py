"""Readers of CSV, TSV, JSON Lines and Parquet files, plain or gzip.

They need constant memory, and give each row with its line or row number.

``tables.Input`` says how a file is written, ``formats`` reads each format, ``labelled`` makes texts and
labels of the values, and ``limits`` lists what may be how large. A row that cannot be read is a
``RowProblem`` among the rows, so that the caller decides whether to stop or to skip it. A file that cannot be
read raises a ``DataError``.
"""
