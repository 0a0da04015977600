"""The limits of sizes: how much of a user's file is one piece, in memory, or looked at, and why.

A file itself has no limit, because it is read in batches. What is in memory as a whole has one.
"""

MB = 1 << 20
"""Bytes."""

# Pieces of a file. A larger one is an error: of its row, where what follows can be read, else of the file.
LONGEST_CELL = MB
"""Characters of a cell of CSV. A longer one is a quote that is never closed, and would swallow the rest."""
ANY_CELL = 2**31 - 1
"""Characters of a cell where nothing is refused: in our own files, and while layouts are tried.

It is the most that the csv module takes. With the wrong layout, a cell of the sample may run to its end.
"""
LONGEST_LINE = 16 * MB
"""Characters of a line, which is in memory as a whole. No text of a row is as long."""
LARGEST_ARRAY = 64 * MB
"""Characters of a JSON array, which is in memory as a whole. JSON Lines have no limit."""

# Memory. Larger files and longer rows only take more batches.
CHUNK = 1 << 16
"""Bytes of a text that are read at a time. Those at its start tell if it is text."""
BATCH_CHARACTERS = 1 << 24
"""Characters of texts from which a batch has fewer rows than usual, so that it fits in memory."""
PARQUET_BATCH = 16 * MB
"""Bytes of a batch of Parquet. Batches have fewer rows where their rows take more, at least one."""
PARQUET_BUFFER = 1 << 20
"""Bytes of a column that are read ahead. Without a limit, a whole row group would be, however large."""
PARQUET_ROWS = 1_000
"""Rows that are decoded at a time where rows are taken one by one: the first ones come soon."""

# What is looked at where nobody told how a file is written, and what its columns mean.
HEAD = 512
"""Bytes by which a file without rows is recognised: the marks of formats are shorter."""
SNIFFED_CHARACTERS = 2**20
"""Characters from which delimiter, quotes and header are detected: one cell may be as long."""
SNIFFED_RECORDS = 1_000
"""Records that show titles, the header, and if a file is written as is told: shares of so many err by 3 %."""
CUT_RECORD = 100
"""Lines of a record that the end of the sample may cut. Of more, a quote is not closed."""
FIRST_OBJECTS = 1_000
"""Objects of JSON whose keys are the columns. Of a stream it is one: the next may come late."""
MOST_VALUES = 1_000
"""Distinct values of a column that are counted.

A column with more does not hold classes, and its texts would take the memory of the whole file.
"""
SAMPLE_ROWS = 5_000
"""Rows of a file whose cells are kept: enough for the length of texts, and for repeated ones."""
KEPT_CHARACTERS = 1 << 15
"""Characters that are kept of a cell: more than any encoder reads."""
MANY_LABELS = 1_000
"""Distinct labels that, if they are more than half of the rows, mean that the wrong column was named.

A column of texts would fill the memory with them.
"""
