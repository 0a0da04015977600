"""The model to train: from a checkpoint, or new from a configuration."""

import difflib
from typing import Any

from transformers import AutoConfig, AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from tuneline.errors import ParamsError
from tuneline.files.schemas import LabelSchema
from tuneline.params import ModelParams


def build_model(params: ModelParams, labels: LabelSchema, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """Builds the classifier in float32. New weights are drawn from torch's generator: seed it first.

    Args:
        params: Section ``model``.
        labels: What the outputs mean; their names go into the configuration.
        tokenizer: Gives the vocabulary's size and the padding id to a new model.

    Raises:
        ParamsError: The configuration has an unknown key, or the checkpoint cannot be had or does not fit.
    """
    if params.checkpoint is not None:
        return _from_checkpoint(params.checkpoint, params, labels)
    config = new_config(params.config, tokenizer)
    config.update(label_config(labels))
    return new_model(config)


def new_model(config: PretrainedConfig) -> PreTrainedModel:
    """Builds a classifier of a configuration, with new weights."""
    auto: Any = AutoModelForSequenceClassification
    model: PreTrainedModel = auto.from_config(config)
    return model


def label_config(labels: LabelSchema) -> dict[str, Any]:
    """The keys of a configuration that say what the outputs mean."""
    names = labels.names or ("score",)
    return {
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
        "problem_type": "regression" if labels.is_regression else "single_label_classification",
    }


def new_config(values: dict[str, Any], tokenizer: PreTrainedTokenizerBase) -> PretrainedConfig:
    """Configuration of a new model: the parameters', with vocabulary and padding from the tokenizer.

    Raises:
        ParamsError: Unknown ``model_type``, or a key its configuration does not have.
    """
    options = {key: value for key, value in values.items() if key != "model_type"}
    try:
        known = AutoConfig.for_model(values["model_type"])
    except ValueError:
        raise ParamsError(f"model.config.model_type: transformers has no {values['model_type']!r}.", "For example 'bert'.") from None
    check_keys(options, known)
    return AutoConfig.for_model(values["model_type"], **{"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, **options})


def check_keys(options: dict[str, Any], known: PretrainedConfig) -> None:
    """Transformers takes any key without a word, so that a typo would change nothing.

    Raises:
        ParamsError: A key that the configuration does not have.
    """
    names = {*known.to_dict(), *known.attribute_map}
    for key in options:
        if key not in names:
            close = difflib.get_close_matches(key, list(names), n=1)
            raise ParamsError(f"model.config.{key}: a {known.model_type} has no such key{f'; did you mean {close[0]}?' if close else '.'}")


def _from_checkpoint(name: str, params: ModelParams, labels: LabelSchema) -> PreTrainedModel:
    try:
        config = AutoConfig.from_pretrained(name, revision=params.revision, trust_remote_code=False)
        options = {key: value for key, value in params.config.items() if key != "model_type"}
        check_keys(options, config)
        config.update({**options, **label_config(labels)})
        loaded: tuple[PreTrainedModel, dict[str, Any]] = AutoModelForSequenceClassification.from_pretrained(
            name,
            revision=params.revision,
            config=config,
            dtype="float32",
            use_safetensors=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,  # a head for other classes is drawn anew; anything else is refused below
            output_loading_info=True,
        )
    except (OSError, ValueError) as error:
        raise ParamsError(f"model.checkpoint: {name!r} could not be loaded: {error}") from None
    _check_loaded(*loaded, name)
    return loaded[0]


def _check_loaded(model: PreTrainedModel, info: dict[str, Any], name: str) -> None:
    """Only the head may be new. A body that was not in the checkpoint would be trained from noise without a word."""
    fresh = {*info["missing_keys"], *(key[0] if isinstance(key, tuple) else key for key in info["mismatched_keys"])}
    body = sorted(key for key in fresh if key.startswith(f"{model.base_model_prefix}.") and ".pooler." not in key)
    if body:
        raise ParamsError(
            f"model.checkpoint: {name!r} does not hold {len(body)} weights of the model, or in another shape: {body[0]} ...",
            "Let model.config override nothing that changes shapes.",
        )
    print(f"train: {name} loaded; new weights: {', '.join(sorted(fresh)) or 'none'}")
