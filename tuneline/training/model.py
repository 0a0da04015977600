"""The model to train: built from a checkpoint or a configuration, with LoRA adapters if asked."""

import copy
import difflib
from collections.abc import Collection
from pathlib import Path
from types import MethodType
from typing import Any

from torch import Tensor, nn
from transformers import (
    AttentionInterface,
    AutoConfig,
    AutoModelForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils import logging

from tuneline.core.params import ModelParams, Params, TrainParams
from tuneline.core.params.train import LoraParams
from tuneline.core.paths import BASE_MODEL
from tuneline.core.runtime.errors import ParamsError
from tuneline.core.runtime.terminal import say
from tuneline.model.linear.pooled_classifier import PairTemplate, PooledClassifier, TrainedModel, encoder_of
from tuneline.model.tasks import Task
from tuneline.model.tokens.architectures import architecture_of, pooling_of, restrict_last_layer
from tuneline.training.head import HEAD_NOTES, HeadStart, match_head, output_weights


def problem_type(labels: Task) -> str:
    """Return the value of ``problem_type`` in the configuration of transformers."""
    if labels.one_class:
        return "single_label_classification"
    if labels.has_classes:
        return "multi_label_classification"
    return "regression"


def build_model(
    params: ModelParams, labels: Task, tokenizer: PreTrainedTokenizerBase, base: Path = BASE_MODEL
) -> tuple[PreTrainedModel, frozenset[str]]:
    """Build the classifier in float32, and return it with the names of its weights that were drawn at random.

    They are drawn from torch's global generator: seed it first. ``base`` is the folder of the checkpoint, if
    ``params`` names one. Unknown keys of the configuration, and a checkpoint that does not fit the model, are
    refused.
    """
    if params.checkpoint is not None:
        return _from_checkpoint(base, params, labels, tokenizer)
    config = new_config(params.config, tokenizer)
    config.update(label_config(labels))
    auto: Any = AutoModelForSequenceClassification
    try:
        model: PreTrainedModel = auto.from_config(config)
    except ValueError as error:
        raise ParamsError(
            f"model.config: transformers cannot build this {config.model_type}: {error}"
        ) from None
    return model, frozenset(model.state_dict())


def pooled_classifier(
    model: PreTrainedModel, params: Params, tokenizer: PreTrainedTokenizerBase, *, is_frozen: bool
) -> PooledClassifier:
    """Return the body of a model with an untrained linear head on its pooled vectors."""
    template = None
    if len(params.data.text_columns) == 2:
        fast_tokenizer: Any = tokenizer
        template = PairTemplate.of(fast_tokenizer)
    return PooledClassifier(encoder_of(model), template, pooling_of(BASE_MODEL), is_frozen=is_frozen)


def label_config(labels: Task) -> dict[str, Any]:
    """Return the configuration keys that describe the outputs: label names and problem type."""
    names = labels.output_names
    return {
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
        "problem_type": problem_type(labels),
    }


def new_config(values: dict[str, Any], tokenizer: PreTrainedTokenizerBase) -> PretrainedConfig:
    """Return the configuration of a new model: ``model.config``, completed from the tokenizer.

    The tokenizer has the vocabulary size and the padding id.
    """
    options = dict(values)
    model_type = options.pop("model_type")
    try:
        default = AutoConfig.for_model(model_type)
    except ValueError:
        raise ParamsError(
            f"model.config.model_type: transformers does not have a model type {model_type!r}.",
            "Set it to 'bert', for example.",
        ) from None
    check_keys(options, default)
    options.setdefault("vocab_size", len(tokenizer))
    options.setdefault("pad_token_id", tokenizer.pad_token_id)
    return AutoConfig.for_model(model_type, **options)


def check_keys(options: dict[str, Any], config: PretrainedConfig) -> None:
    """Refuse unknown configuration keys: transformers accepts any key, so a typo would have no effect."""
    names = config.to_dict().keys() | config.attribute_map.keys()
    for key in options:
        if key not in names:
            suggestion = ""
            close_names = difflib.get_close_matches(key, list(names), n=1)
            if close_names:
                suggestion = f" Did you mean {close_names[0]}?"
            raise ParamsError(
                f"model.config.{key}: the configuration of {config.model_type} does not have this"
                f" key.{suggestion}"
            )


def _from_checkpoint(
    folder: Path, params: ModelParams, labels: Task, tokenizer: PreTrainedTokenizerBase
) -> tuple[PreTrainedModel, frozenset[str]]:
    """Load the checkpoint, fit its head to the labels, and say in one line which weights are new."""
    # transformers would print a table of keys and a bar: the line below says the same
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]

    # configuration and weights
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        check_keys(params.config, config)
        stored_labels = [config.id2label[index] for index in sorted(config.id2label)]
        if config.pad_token_id is None:  # the padding token was added to the tokenizer later
            config.pad_token_id = tokenizer.pad_token_id
        config.update({**params.config, **label_config(labels)})
        loaded: tuple[PreTrainedModel, dict[str, Any]] = AutoModelForSequenceClassification.from_pretrained(
            folder,
            config=config,
            dtype="float32",
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            # a head for other classes is initialized anew; _missing_weights refuses anything else
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    except (OSError, ValueError) as error:
        raise ParamsError(f"model.checkpoint: {params.checkpoint} could not be loaded: {error}") from None
    model, info = loaded
    new = _missing_weights(model, info, params)

    # head: one that was loaded may be of other classes
    head_weights = frozenset(output_weights(model))
    start: HeadStart = "kept"
    if new.isdisjoint(head_weights):
        start = match_head(model, stored_labels, labels)
    if start == "drawn":
        new |= head_weights

    if params.head is None:
        names = ", ".join(sorted(new)) or "none"
        say(f"train: loaded {params.checkpoint}; new weights: {names}{HEAD_NOTES[start]}")
    else:
        say(f"train: loaded {params.checkpoint}")
    return model, new


def _missing_weights(model: PreTrainedModel, info: dict[str, Any], params: ModelParams) -> frozenset[str]:
    """Return the names of the weights that the checkpoint lacks.

    Weights of the body are refused: they would be trained from random values without a warning.
    """
    new: set[str] = set(info["missing_keys"])
    for key in info["mismatched_keys"]:
        if isinstance(key, tuple):  # (name, stored shape, shape of the model)
            new.add(key[0])
        else:
            new.add(key)

    # the pooler belongs to the head: many checkpoints lack it
    prefix = f"{model.base_model_prefix}."
    body = sorted(name for name in new if name.startswith(prefix) and ".pooler." not in name)
    if body:
        raise ParamsError(
            f"model.checkpoint: {params.checkpoint} lacks {len(body)} weights of the model, or has them in"
            f" another shape: {body[0]} ...",
            "Remove keys from model.config that change shapes; if there are none, config.json and the weights"
            " do not belong together.",
        )
    return frozenset(new)


def adapt(model: TrainedModel, params: TrainParams, drawn: Collection[str]) -> nn.Module:
    """Enable gradient checkpointing, and add LoRA adapters, as the parameters say."""
    if params.gradient_checkpointing:
        # not reentrant: the reentrant kind drops gradients where the input of a layer needs none
        enable: Any = model.gradient_checkpointing_enable
        enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if params.lora is not None:
        return add_adapters(model, params.lora, drawn)
    return model


def add_adapters(model: TrainedModel, params: LoraParams, drawn: Collection[str]) -> nn.Module:
    """Return the model with LoRA adapters; the modules of ``trained_modules`` learn, too.

    Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021, arXiv:2106.09685.
    """
    from peft import LoraConfig, TaskType, get_peft_model

    config = LoraConfig(
        task_type=TaskType.SEQ_CLS,
        r=params.rank,
        lora_alpha=params.alpha,
        lora_dropout=params.dropout,
        target_modules=params.target_modules,
        modules_to_save=trained_modules(model, drawn),
    )
    try:
        adapted: nn.Module = get_peft_model(model, config)
    except ValueError as error:
        layers = set()
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear):
                layers.add(name.rpartition(".")[2])
        raise ParamsError(
            f"train.lora.target_modules: {error}",
            f"Linear layers of this model: {', '.join(sorted(layers))}",
        ) from None
    return adapted


def trained_modules(model: TrainedModel, drawn: Collection[str]) -> list[str]:
    """Return the modules that learn as a whole: all outside of the body, and a pooler drawn at random.

    peft alone trains modules named ``classifier`` and ``score``, and would leave what is drawn between them
    and the body (the pooler of BERT, ``head`` of ModernBERT, ``pre_classifier`` of DistilBERT) at random
    values.
    """
    body = model.base_model_prefix
    heads = []
    for name, module in model.named_children():
        has_weights = next(module.parameters(), None) is not None
        if name != body and has_weights:
            heads.append(name)

    poolers = set()
    for name in drawn:
        module_name, pooler, _ = name.partition(".pooler.")
        if name.startswith(f"{body}.") and pooler:
            poolers.add(f"{module_name}.pooler")
    return heads + sorted(poolers)


def compute_first_token_only(model: PreTrainedModel) -> None:
    """Restrict the last layer to the first token, as ``restrict_last_layer`` does, and also its queries.

    Logits and gradients are as with the full layer; dropout draws fewer masks, so runs with and without this
    differ like runs with two seeds.
    """
    last = restrict_last_layer(model)
    query = architecture_of(model.config.to_dict()).query
    if last is not None and query is not None and model.config._attn_implementation == "sdpa":
        _attend_with_first_token(last, query)


def _attend_with_first_token(layer: nn.Module, query: str) -> None:
    """Compute queries and attention of a layer for the first token only.

    The other tokens get copies of its result, which nothing reads.
    """
    # queries
    projection: Any = layer.get_submodule(query)
    projection.forward = MethodType(_project_first_token, projection)

    # attention: of this layer only, so its configuration must not be the one that all layers share
    attention: Any = layer.get_submodule(query.rpartition(".")[0])
    attention.config = copy.copy(attention.config)
    attention.config._attn_implementation = "of_first_token"
    AttentionInterface.register("of_first_token", _first_token_attention)


def _project_first_token(linear: nn.Linear, hidden: Tensor) -> Tensor:
    """Return the query of the first token, repeated for all tokens, shape ``(batch, tokens, features)``."""
    query = type(linear).forward(linear, hidden[:, :1].contiguous())
    return query.expand(-1, hidden.shape[1], -1)


def _first_token_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """Return the attention output of the first token, repeated for all tokens, and no weights.

    The output has the shape ``(batch, tokens, heads, features)``.
    """
    if mask is not None:
        mask = mask[:, :, :1]
    output, weights = ALL_ATTENTION_FUNCTIONS["sdpa"](module, query[:, :, :1], key, value, mask, **options)
    return output.expand(-1, query.shape[2], -1, -1), weights
