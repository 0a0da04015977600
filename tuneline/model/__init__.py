"""What a model reads and how its batches are made: architectures, tokenizers, encoding.

No torch at import.
"""
