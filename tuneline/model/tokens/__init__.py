"""Texts as tokens: tokenizers, encoding, windows, batches, and tokenized splits."""
