"""Changes to the texts of a row. The same row is changed the same way each time."""

import re
import zlib
from collections.abc import Callable

from stages.evaluate.behaviour.suite import Append, Change, Prepend, Replace

Texts = tuple[str, ...]

_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
_FINAL = re.compile(r"\s*[.!?]+\s*$")
_AUXILIARY = re.compile(
    r"\b(is|are|was|were|will|would|can|could|should|has|have|had|does|do|did|may|might|must)\b(?!\s*n[o']t\b)", re.IGNORECASE
)


def apply(change: Change, texts: Texts, where: str | None) -> Texts | None:
    """Changes a row.

    Args:
        change: What to do.
        texts: One or two.
        where: Which of them: ``first``, ``last``, ``all``; ``None`` for what suits the change.

    Returns:
        The texts, or ``None`` where there is nothing to change.
    """
    if change in ("swap_texts", "same_text"):
        changed = texts[::-1] if change == "swap_texts" else texts[:1] * len(texts)
    else:
        editor = _editor(change)
        added = isinstance(change, Append | Prepend) or change == "negate"
        where = where or ("last" if added else "all")
        chosen = {"first": {0}, "last": {len(texts) - 1}, "all": set(range(len(texts)))}[where]
        changed = tuple(editor(text) if index in chosen else text for index, text in enumerate(texts))
    return changed if changed != texts or change == "same_text" else None


def _editor(change: Change) -> Callable[[str], str]:
    if isinstance(change, Append):
        return lambda text: f"{text.rstrip()} {change.append}"
    if isinstance(change, Prepend):
        return lambda text: f"{change.prepend} {text.lstrip()}"
    if isinstance(change, Replace):
        words = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, change.replace))})(?!\w)")
        return lambda text: words.sub(lambda found: change.replace[found[1]], text)
    return {
        "typo": typo,
        "lower_case": str.lower,
        "upper_case": str.upper,
        "no_final_punctuation": lambda text: _FINAL.sub("", text),
        "negate": negate,
    }[change]


def typo(text: str) -> str:
    """Swaps two neighbouring letters inside one word of four letters or more. Which ones depends on the text alone."""
    chance = zlib.crc32(text.encode())
    words = [(found.start(), place) for found in _LONG_WORD.finditer(text) if found[0].isalpha() for place in _swappable(found[0])]
    if not words:
        return text
    start, place = words[chance % len(words)]
    left = start + place
    return f"{text[:left]}{text[left + 1]}{text[left]}{text[left + 2 :]}"


def _swappable(word: str) -> list[int]:
    """Places inside a word, its first and last letter left out, where two neighbours differ."""
    return [place for place in range(1, len(word) - 2) if word[place] != word[place + 1]]


def negate(text: str) -> str:
    """Puts "not" behind the first auxiliary verb that has none."""
    return _AUXILIARY.sub(r"\1 not", text, count=1)
