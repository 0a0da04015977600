"""Errors of the tokenizers library: neither a program that predicts nor ``base`` loads more for them."""


def is_tokenizer_error(error: BaseException) -> bool:
    """Return True for errors of the tokenizers library, which have no class that can be imported.

    They are a bare ``Exception`` (the vocabulary has no unknown token), or a panic of Rust (a regular
    expression takes too many steps), which is no ``Exception``.
    """
    return type(error) is Exception or type(error).__name__ == "PanicException"
