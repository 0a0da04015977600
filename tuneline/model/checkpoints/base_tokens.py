"""Proof that the pipeline gives a model the tokens of its own ``tokenizer.json``.

The page of texts has what normalizers, pre-tokenizers and templates treat differently.
"""

# ruff: noqa: RUF001 - characters that look alike are what the texts are for

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from tuneline.core.runtime.errors import ParamsError
from tuneline.model.tokens.tokenizer import save_tokenizer
from tuneline.model.tokens.tokenizer_settings import TOKENIZER_JSON

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

TEXTS = (
    "Hello ROSE, the McDonald's of São Paulo",
    "résumé naïve ÅNGSTRÖM Straße İstanbul",
    "re\u0301sume\u0301 with combining accents",
    "中文 and 日本語のテキスト, 한국어",
    "ｆｕｌｌ　ｗｉｄｔｈ ﬁne ½ ① ™",
    "a\u00a0b no-break, zero\u200bwidth, soft\u00adhyphen, \ufeffmark",
    "emoji 👍🏽 👩\u200d👩\u200d👧 🇩🇪 ☺️",
    "tab\tline\nend\r\nof  two   spaces",
    " a space first",
    "spaces last  ",
    "\n\tboth ends\n",
    "``quotes'' \"so\" “so” ‚so‘ … — –",
    "3.14 1,000 10% $5 C++ C# #tag @user http://example.org/?a=b&c=d",
    "[CLS] a [SEP] b [MASK] <s> c </s> <mask> <unk> [UNK] <|endoftext|>",
    "Привет мир, Γειά σου Κόσμε, नमस्ते दुनिया, שלום, مرحبا",
    "internationalization antidisestablishmentarianism",
    "",
    " ",
)
"""Texts whose tokens show what a tokenizer does."""


def check_tokens(tokenizer: "PreTrainedTokenizerFast", folder: Path, label: str) -> None:
    """Check that a loaded tokenizer, and what is saved of it, give the tokens of ``tokenizer.json``.

    Args:
        tokenizer: The loaded tokenizer.
        folder: Its folder.
        label: Its parameter and name, for messages.

    Raises:
        ParamsError: Ids, types or offsets differ for a text.
    """
    from transformers import PreTrainedTokenizerFast

    own = Tokenizer.from_file(str(folder / TOKENIZER_JSON))
    with TemporaryDirectory() as saved:
        save_tokenizer(tokenizer, 512, Path(saved))
        # what the stages tokenize with, and what AutoTokenizer loads from the trained model
        for used in (
            Tokenizer.from_file(str(Path(saved) / TOKENIZER_JSON)),
            PreTrainedTokenizerFast.from_pretrained(saved).backend_tokenizer,
        ):
            compare_tokens(own, used, label)


def compare_tokens(own: Tokenizer, used: Tokenizer, label: str) -> None:
    """Check that two tokenizers give the same ids, types and offsets on the page of texts, also as pairs.

    Both are changed: neither truncates or pads, and special tokens in a text are text.
    """
    for tokenizer in (own, used):
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True
    second_texts = TEXTS[1:] + TEXTS[:1]
    for text, second in zip(TEXTS, second_texts, strict=True):
        for row in ((text,), (text, second)):
            expected = encode(own, row)
            result = encode(used, row)
            if expected != result:
                raise ParamsError(
                    f"{label}: the pipeline would read other tokens than its {TOKENIZER_JSON} for"
                    f" {' and '.join(map(repr, row))}: {result} instead of {expected}.",
                    "A setting in tokenizer_config.json or special_tokens_map.json changes the tokens. Report"
                    " this as an error of Tuneline, with both files.",
                )


def encode(tokenizer: Tokenizer, row: tuple[str, ...]) -> dict[str, Any] | str:
    """Return the tokens of one text or two; or the message if the tokenizer fails on it."""
    from tuneline.model.tokens.encoding import (
        is_tokenizer_error,  # numpy, which a model from scratch needs not
    )

    second = None
    if len(row) == 2:
        second = row[1]
    try:
        encoding = tokenizer.encode(row[0], second)
    except BaseException as error:
        if not is_tokenizer_error(error):
            raise
        return str(error)
    return {
        "tokens": encoding.tokens,
        "ids": encoding.ids,
        "types": encoding.type_ids,
        "offsets": encoding.offsets,
    }
