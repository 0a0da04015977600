"""Conversion of the vocabulary of an old checkpoint into the tokenizer that ``tokenizer.json`` would hold.

The files say the vocabulary, and their class of tokenizers the rest. What the configuration does not state
is read from the vocabulary where it can be known from it, and else has the default of the class; the note
for the user has both.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import AddedToken, Tokenizer

from tuneline.core.runtime.errors import ParamsError
from tuneline.model.tokens.tokenizer_settings import (
    ADDED_TOKENS,
    SENTENCEPIECE_FILES,
    TOKENIZER_CONFIG,
    VOCAB_TXT,
    TokenizerSettings,
    class_defaults,
    find_class,
    read_object,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

BERT_TOKENS = frozenset({"[UNK]", "[CLS]", "[SEP]"})
"""Tokens of every ``vocab.txt`` in BERT's form."""
CASED = 0.01
"""Share of the words of a vocabulary with upper-case letters from which it is certainly a cased one."""


@dataclass(frozen=True)
class Conversion:
    """A converted tokenizer.

    Attributes:
        tokenizer: The tokenizer.
        note: From which file, by which class, and with which assumptions.
    """

    tokenizer: Tokenizer
    note: str


def convert(
    folder: Path, settings: TokenizerSettings, tokenizer_class: "type[PreTrainedTokenizerBase]"
) -> Conversion:
    """Convert the vocabulary in a folder without ``tokenizer.json``.

    Raises:
        ParamsError: A setting that changes the tokens can be known neither from the configuration nor from
            the vocabulary, or transformers has no conversion.
    """
    options = {}
    assumed = []
    for name, default in _choices(tokenizer_class).items():
        if name in settings.stated:
            options[name] = settings.stated[name]
            continue
        options[name] = default
        reason = ""
        if name in FROM_VOCABULARY and (folder / VOCAB_TXT).exists():
            options[name], reason = FROM_VOCABULARY[name](_words(folder / VOCAB_TXT))
        assumed.append(f"{name} {json.dumps(options[name])}{reason}")

    models = [folder / name for name in SENTENCEPIECE_FILES if (folder / name).exists()]
    name = tokenizer_class.__name__
    if models:
        source = models[0].name
        tokenizer = _from_sentencepiece(models[0], tokenizer_class, options)
    else:
        source = "its vocabulary"
        loaded: Any = tokenizer_class.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, **options
        )
        tokenizer = loaded.backend_tokenizer
    note = f"it has no tokenizer.json, so {source} is converted as {name}"
    if assumed:
        note += f", and {TOKENIZER_CONFIG} does not state everything. Assumed: {', '.join(assumed)}"
    return Conversion(tokenizer, note)


def converted_class(folder: Path, settings: TokenizerSettings) -> "type[PreTrainedTokenizerBase]":
    """Return the class that converts the vocabulary of a folder.

    Raises:
        ParamsError: No file says it.
    """
    import transformers

    for name in (settings.class_name, settings.model_class_name):
        tokenizer_class = find_class(name)
        if tokenizer_class is not None and tokenizer_class is not transformers.PreTrainedTokenizerFast:
            return tokenizer_class
    vocabulary = folder / VOCAB_TXT
    if vocabulary.exists() and BERT_TOKENS.issubset(_words(vocabulary)):
        return transformers.BertTokenizer
    raise ParamsError(
        "there is no tokenizer.json, and neither tokenizer_config.json nor config.json says of which kind the"
        " tokenizer is."
    )


def _choices(tokenizer_class: "type[PreTrainedTokenizerBase]") -> Mapping[str, Any]:
    """Return the parameters of a class that change the tokens of a text, with their defaults."""
    choices = {}
    for name, default in class_defaults(tokenizer_class).items():
        if isinstance(default, bool) or name in FROM_VOCABULARY:
            choices[name] = default
    return choices


def _words(vocabulary: Path) -> Sequence[str]:
    """Return the entries of a ``vocab.txt`` in the order of their ids."""
    with vocabulary.open(encoding="utf-8") as lines:
        return [line.rstrip("\n") for line in lines]


def _lower_cased(words: Sequence[str]) -> tuple[bool, str]:
    """Return whether the texts of a vocabulary were lower-cased, and the reason."""
    cased = upper = 0
    for word in _text_words(words):
        cased += word.lower() != word.upper()
        upper += any(character.isupper() and character.lower() != character for character in word)
    if upper == 0:
        return True, " (the vocabulary has no upper-case letter)"
    if upper < CASED * cased:
        raise ParamsError(
            f"{TOKENIZER_CONFIG} does not state do_lower_case, and the vocabulary leaves it open: {upper:,}"
            f" of {cased:,} words have upper-case letters.",
            f'Write "do_lower_case": true or false into {TOKENIZER_CONFIG}, as the model was trained.',
        )
    return False, f" ({upper:,} of {cased:,} words have upper-case letters)"


def _text_words(words: Iterable[str]) -> Iterable[str]:
    """Yield the words that come from texts: not special tokens, and without the mark of a continuation."""
    for word in words:
        if not (word.startswith(("[", "<")) and word.endswith(("]", ">")) and len(word) > 2):
            yield word.removeprefix("##")


FROM_VOCABULARY: Mapping[str, Callable[[Sequence[str]], tuple[bool, str]]] = {
    "do_lower_case": _lower_cased,
}
"""Parameters of BERT's relatives that a ``vocab.txt`` shows."""


class SentencePieceModel:
    """A SentencePiece file as the converters of transformers read it: the file, options, and ids.

    transformers converts through its classes of tokenizers instead, and loses the normalization in the file.
    """

    def __init__(self, file: Path, options: Mapping[str, Any], ids: Mapping[str, int]) -> None:
        """Offer ``options`` as attributes; ``ids`` is the vocabulary of the converted tokenizer."""
        vars(self).update(options)
        self.vocab_file = str(file)
        self.ids = ids
        self._extra_ids = options.get("extra_ids", 100)

    def convert_tokens_to_ids(self, token: str) -> int:
        """Return the id of a token."""
        return self.ids[token]


def _from_sentencepiece(
    file: Path, tokenizer_class: "type[PreTrainedTokenizerBase]", options: Mapping[str, Any]
) -> Tokenizer:
    """Convert a SentencePiece file as the converter of its class does it."""
    from transformers.convert_slow_tokenizer import SLOW_TO_FAST_CONVERTERS

    name = tokenizer_class.__name__
    if name not in SLOW_TO_FAST_CONVERTERS:
        raise ParamsError(f"transformers converts no {file.name} of {name} to a fast tokenizer.")
    ids: dict[str, int] = {}
    converter = SLOW_TO_FAST_CONVERTERS[name](SentencePieceModel(file, options, ids))
    for number, (token, _) in enumerate(converter.vocab(converter.proto)):
        ids[token] = number
    tokenizer: Tokenizer = converter.converted()

    added = read_object(file.parent / ADDED_TOKENS)
    for token, number in sorted(added.items(), key=lambda entry: int(entry[1])):
        tokenizer.add_tokens([AddedToken(token, normalized=True)])
        if tokenizer.token_to_id(token) != number:
            raise ParamsError(
                f"{ADDED_TOKENS}: {token!r} has id {number}, which does not follow {file.name}."
            )
    return tokenizer
