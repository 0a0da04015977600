"""The checks of raw and tokenized columns, their results and their page."""
