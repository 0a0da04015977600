"""Architectures, tokenizers, encoding, batches, and the linear model on a frozen checkpoint.

No torch at import.
"""
