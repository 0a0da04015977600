"""Places where a text can be cut without a change of its tokens.

A tokenizer normalizes a text, divides it into words, and encodes each word by itself. So a text has the
tokens of its two parts, one after the other, where the tokenizer divides whatever is before and after the
place, and where no step of its normalization reads across. Both are known of a list of steps; a tokenizer
with any other step has no safe cuts.
"""

import itertools
import json
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from tokenizers import Tokenizer, models

CONTEXT = 64
"""Characters on each side of a cut with which the tokenizer is asked about it."""
ATTEMPTS = 16
"""Places about which a tokenizer is asked until a text is not cut."""
PUNCTUATION = string.punctuation + "，。、；：？！"  # noqa: RUF001 - of Chinese
"""Characters that no normalization joins with the one before them, and that are not part of a word."""
IDEOGRAPHS = "\u4e00-\u9fff"
"""Characters that no normalization changes, and that BERT reads as words."""
NORMALIZERS = frozenset(
    (
        "BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled", "Prepend",
        "Replace", "Strip", "StripAccents",
    )
)  # fmt: skip
"""Steps that read across no place before a space or a punctuation mark which follows a letter or digit."""
JOINED_SPACES = " {2,}"
"""The only regular expression of a ``Replace`` that is known: it reads across no single space."""
WITHIN_WORDS = frozenset(("Digits", "Punctuation"))
"""Steps that divide words further, by the class of each character."""
DIGIT = r"\p{N}"
"""The only regular expression of a ``Split`` that is known: it divides at characters of one class."""
SUPPORTED_MODELS = (models.BPE, models.Unigram, models.WordLevel, models.WordPiece)


@dataclass(frozen=True)
class SafeCuts:
    """The safe cuts of the texts of a tokenizer.

    Attributes:
        tokenizer: A Rust tokenizer that neither truncates nor pads.
        places: Matches the empty string at each place where the tokenizer divides. What it does with the
            beginning of a text only, for example a space before it, a comparison of tokens tells.
    """

    tokenizer: Tokenizer
    places: re.Pattern[str]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self | None:
        """Return the safe cuts of a tokenizer, or ``None`` if it has a step that is not known."""
        pre_tokenizer = _steps(tokenizer.pre_tokenizer, "pretokenizers")
        normalizer = _steps(tokenizer.normalizer, "normalizers")
        divided = _divided_before(pre_tokenizer)
        if (
            not divided
            or not _is_local(normalizer, divided)
            or not isinstance(tokenizer.model, SUPPORTED_MODELS)
        ):
            return None
        if getattr(tokenizer.model, "dropout", None):
            return None

        # a single space between two letters or digits
        letter = r"[^\W_]"
        places = [f"(?<={letter})(?= {letter})"]
        # before punctuation; which letters are still letters after normalization is known of these
        punctuation = divided.replace(" ", "")
        if punctuation:
            places.append(f"(?<=[0-9A-Za-z{IDEOGRAPHS}])(?=[{re.escape(punctuation)}])")
        # between ideographs
        types = [step["type"] for step in (*normalizer, *pre_tokenizer)]
        if types == ["BertNormalizer", "BertPreTokenizer"] and normalizer[0]["handle_chinese_chars"]:
            places.append(f"(?<=[{IDEOGRAPHS}])(?=[{IDEOGRAPHS}])")
        pattern = re.compile("|".join(places))

        for token in tokenizer.get_added_tokens_decoder().values():
            is_text = not (token.special and tokenizer.encode_special_tokens)
            if is_text and (pattern.search(token.content) or len(token.content) > CONTEXT):
                return None
        return cls(tokenizer, pattern)

    def head(self, text: str, size: int) -> str | None:
        """Return a beginning of a text, of ``size`` characters or more; ``None`` if no safe cut is known.

        The tokens of the text begin with its tokens.
        """
        for cut in self._places(text, size):
            together, left, _ = self._tokens(text[:cut], text[cut:])
            if together[: len(left)] == left:
                return text[:cut]
        return None

    def tail(self, text: str, size: int) -> str | None:
        """Return an end of a text, of ``size`` characters or less; ``None`` if no safe cut is known.

        The tokens of the text end with its tokens.
        """
        for cut in self._places(text, len(text) - size):
            together, _, right = self._tokens(text[:cut], text[cut:])
            if together[len(together) - len(right) :] == right:
                return text[cut:]
        return None

    def after(self, text: str, start: int) -> int | None:
        """Return the first safe cut at ``start`` or after it, as a number of characters; ``None``: none."""
        for cut in self._places(text, start):
            if self._keeps_tokens(text[:cut], text[cut:]):
                return cut
        return None

    def joins(self, left: str, right: str) -> bool:
        """Return True if the place between two texts is a safe cut of both together."""
        around = left[-1:] + right[:CONTEXT]
        return self.places.match(around, len(left[-1:])) is not None and self._keeps_tokens(left, right)

    def _places(self, text: str, start: int) -> Iterator[int]:
        """Yield the first places at ``start`` or after it at which the tokenizer divides a text."""
        for place in itertools.islice(self.places.finditer(text, start), ATTEMPTS):
            yield place.start()

    def _keeps_tokens(self, left: str, right: str) -> bool:
        """Return True if two texts together have the tokens of each of them."""
        together, left_tokens, right_tokens = self._tokens(left, right)
        return together == left_tokens + right_tokens

    def _tokens(self, left: str, right: str) -> tuple[list[int], list[int], list[int]]:
        """Return the tokens around the place between two texts: of both together, and of each."""
        left = left[-CONTEXT:]
        right = right[:CONTEXT]
        encodings = self.tokenizer.encode_batch_fast([left + right, left, right], add_special_tokens=False)
        together, left_tokens, right_tokens = [encoding.ids for encoding in encodings]
        return together, left_tokens, right_tokens


def _steps(component: Any, key: str) -> list[dict[str, Any]]:
    """Return the steps of a normalizer or pre-tokenizer; ``key`` has the steps of a sequence."""
    if component is None:
        return []
    steps = [json.loads(component.__getstate__())]
    while any(step["type"] == "Sequence" for step in steps):
        flat: list[dict[str, Any]] = []
        for step in steps:
            if step["type"] == "Sequence":
                flat += step[key]
            else:
                flat.append(step)
        steps = flat
    return steps


def _divided_before(pre_tokenizer: list[dict[str, Any]]) -> str:
    """Return the characters before which a pre-tokenizer divides a text, after a letter or digit.

    Each word is divided further by the following steps. Empty: it has a step that is not known.
    """
    divided = ""
    for step in pre_tokenizer:
        characters = _divided_by(step)
        if not characters and not _divides_within_words(step):
            return ""
        divided = divided or characters
    return divided


def _divided_by(step: dict[str, Any]) -> str:
    """Return the characters before which one step divides, after a letter or digit."""
    match step["type"]:
        case "BertPreTokenizer":
            return " " + PUNCTUATION
        case "Whitespace":
            return " " + PUNCTUATION.replace("_", "")
        case "ByteLevel" if step["use_regex"]:
            return " " + PUNCTUATION.replace("'", "")  # it may take an apostrophe as part of a word
        case "WhitespaceSplit":
            return " "
        case "Metaspace" if step["split"]:
            return " "
    return ""


def _divides_within_words(step: dict[str, Any]) -> bool:
    if step["type"] == "Split":
        return bool(step["pattern"] == {"Regex": DIGIT})
    return step["type"] in WITHIN_WORDS


def _is_local(normalizer: list[dict[str, Any]], divided: str) -> bool:
    """Return True if no step of a normalizer reads across a place before these characters."""
    for step in normalizer:
        if step["type"] not in NORMALIZERS:
            return False
        if step["type"] != "Replace" or step["pattern"] == {"Regex": JOINED_SPACES}:
            continue
        replaced = step["pattern"].get("String")
        if replaced is None or set(replaced) & set(divided):
            return False
    return True
