"""The tokenizer of a checkpoint: how it is loaded and saved, and the length that it allows.

``tokenizer.json`` decides how a text becomes tokens, because it is what the authors of the checkpoint saved.
The classes of transformers 5 build the normalizer, the pre-tokenizer and the template anew instead, from a
few keys of ``tokenizer_config.json``, so the model would read other tokens than it was trained on
(huggingface/transformers#45701, #45812, #45920). Every stage and command loads its tokenizer here.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from tuneline.core.runtime.errors import ParamsError
from tuneline.core.runtime.terminal import say
from tuneline.core.stage.records import write_record
from tuneline.model.tokens.architectures import token_limit
from tuneline.model.tokens.long_text import LongText
from tuneline.model.tokens.tokenizer_conversion import convert, converted_class
from tuneline.model.tokens.tokenizer_settings import (
    LONG_TEXT_JSON,
    TOKENIZER_CONFIG,
    TOKENIZER_JSON,
    TokenizerSettings,
    find_class,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

PYTHON_STEPS = {"RoFormerTokenizer": "it divides Chinese with jieba"}
"""Fast tokenizers that compute a part in Python, which no ``tokenizer.json`` has."""


def load_tokenizer(folder: Path, label: str) -> "PreTrainedTokenizerFast":
    """Load the tokenizer in a folder, with a padding token.

    A folder without ``tokenizer.json`` is converted, and that is printed.

    Args:
        folder: The folder; no code in it is run.
        label: Its parameter and name, for messages.

    Raises:
        ParamsError: The tokenizer cannot be loaded, is a slow one, or has no padding token.
    """
    try:
        settings = TokenizerSettings.read(folder)
        tokenizer_class = find_class(settings.class_name)
        _check_class(tokenizer_class, settings)
        if (folder / TOKENIZER_JSON).exists():
            rust = Tokenizer.from_file(str(folder / TOKENIZER_JSON))
        else:
            tokenizer_class = converted_class(folder, settings)
            _check_class(tokenizer_class, settings)
            conversion = convert(folder, settings, tokenizer_class)
            say(f"{label}: {conversion.note}.")
            rust = conversion.tokenizer
        tokenizer = _with_settings(rust, settings, tokenizer_class)
    except ParamsError as error:
        raise ParamsError(f"{label}: {error.problem}", error.hint) from None
    except Exception as error:  # a broken file raises errors of many types
        first = str(error).strip().split("\n", 1)[0]
        hint = "A tokenizer that save_pretrained wrote has tokenizer.json and tokenizer_config.json."
        raise ParamsError(f"{label}: the tokenizer cannot be loaded: {first}", hint) from None
    if tokenizer.pad_token_id is None:
        raise ParamsError(
            f"{label}: the tokenizer has no padding token, which batches need.",
            "Save a copy with one (tokenizer.pad_token = ...;"
            " tokenizer.save_pretrained('models/source/NAME')) and name that folder.",
        )
    tokenizer.name_or_path = str(folder)
    return tokenizer


def _check_class(
    tokenizer_class: "type[PreTrainedTokenizerBase] | None", settings: TokenizerSettings
) -> None:
    """Check that the tokens of a class do not depend on code: of Python, or of the repository."""
    from transformers import PreTrainedTokenizerFast

    name = settings.class_name
    if tokenizer_class is None and settings.has_own_code:
        raise ParamsError(
            f"its tokenizer ({name}) is code of the repository, which is never run.",
            "Choose another checkpoint, or save this one with a tokenizer of transformers.",
        )
    if name in PYTHON_STEPS:
        raise ParamsError(
            f"{name} is not a whole tokenizer.json: {PYTHON_STEPS[name]}.", "Choose another checkpoint."
        )
    if tokenizer_class is None or tokenizer_class.__name__ == "PythonBackend":  # of any kind
        return
    if not issubclass(tokenizer_class, PreTrainedTokenizerFast):
        raise ParamsError(
            f"it has only a slow tokenizer ({name}).",
            "The pipeline needs a fast tokenizer (a tokenizer.json). Choose another checkpoint, or convert"
            " this one.",
        )


def _with_settings(
    rust: Tokenizer, settings: TokenizerSettings, tokenizer_class: "type[PreTrainedTokenizerBase] | None"
) -> "PreTrainedTokenizerFast":
    """Return a Rust tokenizer as one of transformers.

    Truncation and padding that ``tokenizer.json`` does by itself say the side and the token where no
    configuration does, and are switched off: the stages truncate, and pad on the right.
    """
    from transformers import PreTrainedTokenizerFast

    truncation_side = settings.stated.get("truncation_side")
    if truncation_side is None:
        truncation_side = (rust.truncation or {}).get("direction", "right")
    special_tokens = {}
    for key, token in settings.tokens_of(tokenizer_class).items():
        stated = key in settings.special_tokens
        # one that is stated and new gets the next id, as transformers does it
        if token is not None and (stated or rust.token_to_id(token) is not None):
            special_tokens[key] = token
    if rust.padding is not None and "pad_token" not in settings.special_tokens:
        special_tokens["pad_token"] = rust.padding["pad_token"]

    rust.no_truncation()
    rust.no_padding()
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=rust,
        model_input_names=settings.input_names(tokenizer_class),
        model_max_length=settings.max_length,
        truncation_side=truncation_side,
        padding_side="right",
        clean_up_tokenization_spaces=bool(settings.stated.get("clean_up_tokenization_spaces")),
        split_special_tokens=bool(settings.stated.get("split_special_tokens")),
        **special_tokens,
    )


def save_tokenizer(
    tokenizer: "PreTrainedTokenizerFast", max_length: int, folder: Path, long_text: LongText | None = None
) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json``, which other programs load with the same tokens.

    ``AutoTokenizer`` of transformers 4 and 5 takes ``tokenizer.json`` as it is for the class that is written,
    also beside the ``config.json`` of a model. Truncation and padding are switched off, and a special token
    that stands in a text is text. Beside them is what becomes of long texts, unless they are truncated.
    """
    rust = tokenizer.backend_tokenizer
    rust.no_truncation()
    rust.no_padding()
    config: dict[str, Any] = {
        "clean_up_tokenization_spaces": tokenizer.clean_up_tokenization_spaces,
        "model_input_names": list(tokenizer.model_input_names),
        "model_max_length": max_length,
        "padding_side": "right",
        "split_special_tokens": True,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "truncation_side": tokenizer.truncation_side,
        **tokenizer.special_tokens_map,
    }
    # transformers 4 changes the pre-tokenizer to what is written here
    if rust.pre_tokenizer is not None:
        pre_tokenizer = json.loads(rust.pre_tokenizer.__getstate__())
        if "add_prefix_space" in pre_tokenizer:
            config["add_prefix_space"] = pre_tokenizer["add_prefix_space"]

    folder.mkdir(parents=True, exist_ok=True)
    rust.save(str(folder / TOKENIZER_JSON))
    text = json.dumps(config, indent=2, ensure_ascii=False, sort_keys=True)
    (folder / TOKENIZER_CONFIG).write_text(text + "\n", encoding="utf-8")
    if long_text is not None and long_text.windows is not None:
        write_record(folder / LONG_TEXT_JSON, long_text)


def long_text_beside(folder: Path) -> LongText:
    """Return what becomes of long texts, from the folder of a tokenizer: without a file, truncation."""
    return LongText.read_if_exists(folder / LONG_TEXT_JSON) or LongText()


def checkpoint_limit(folder: Path) -> int | None:
    """Return the number of tokens that a checkpoint takes; ``None`` if there is no limit.

    Its tokenizer says it, else its model.
    """
    settings = TokenizerSettings.read(folder)
    if settings.max_length is not None:
        return settings.max_length
    return token_limit(settings.model)
