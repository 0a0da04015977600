"""The model to train: built from a checkpoint or a configuration, partly frozen or with LoRA adapters."""

import copy
import difflib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MethodType
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
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

from tuneline.core.errors import ParamsError
from tuneline.core.paths import BASE_MODEL
from tuneline.core.terminal import say
from tuneline.model.architectures import architecture_of
from tuneline.params import ModelParams, TrainParams
from tuneline.params.train import LoraParams
from tuneline.tasks import Task

_PART = 1_000_000
"""Targets that are copied at a time."""


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


def label_config(labels: Task) -> dict[str, Any]:
    """Return the configuration keys that describe the outputs: label names and problem type."""
    names = labels.output_names
    return {
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
        "problem_type": labels.problem_type,
    }


def new_config(values: dict[str, Any], tokenizer: PreTrainedTokenizerBase) -> PretrainedConfig:
    """Return the configuration of a new model: ``model.config``, with vocabulary size and padding id of the tokenizer."""
    options = {key: value for key, value in values.items() if key != "model_type"}
    try:
        default = AutoConfig.for_model(values["model_type"])
    except ValueError:
        message = (
            f"model.config.model_type: transformers does not have a model type {values['model_type']!r}."
        )
        raise ParamsError(message, "Set it to 'bert', for example.") from None
    check_keys(options, default)
    return AutoConfig.for_model(
        values["model_type"],
        **{"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, **options},
    )


def check_keys(options: dict[str, Any], config: PretrainedConfig) -> None:
    """Refuse unknown configuration keys: transformers accepts any key, so a typo would have no effect."""
    names = {*config.to_dict(), *config.attribute_map}
    for key in options:
        if key not in names:
            close = difflib.get_close_matches(key, list(names), n=1)
            suggestion = f" Did you mean {close[0]}?" if close else ""
            raise ParamsError(
                f"model.config.{key}: the configuration of {config.model_type} does not have this"
                f" key.{suggestion}"
            )


def _from_checkpoint(
    folder: Path, params: ModelParams, labels: Task, tokenizer: PreTrainedTokenizerBase
) -> tuple[PreTrainedModel, frozenset[str]]:
    logging.set_verbosity_error()  # type: ignore[no-untyped-call] # say() in _from_checkpoint says in one line what its table of keys says
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        check_keys(params.config, config)
        stored = [config.id2label[index] for index in sorted(config.id2label)]
        if config.pad_token_id is None:  # that of the tokenizer was added later
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
    outputs = frozenset(_output_weights(model))
    start: HeadStart = "kept"
    if not new & outputs:
        start = match_head(model, stored, labels)
    if start == "drawn":
        new |= outputs
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
    new = frozenset(
        [
            *info["missing_keys"],
            *(key[0] if isinstance(key, tuple) else key for key in info["mismatched_keys"]),
        ]
    )
    body = sorted(
        key for key in new if key.startswith(f"{model.base_model_prefix}.") and ".pooler." not in key
    )
    if body:
        raise ParamsError(
            f"model.checkpoint: {params.checkpoint} lacks {len(body)} weights of the model, or has them in"
            f" another shape: {body[0]} ...",
            "Remove keys from model.config that change shapes; if there are none, config.json and the weights"
            " do not belong together.",
        )
    return new


HeadStart = Literal["kept", "moved", "drawn"]
"""Whether a loaded head stays as it is, has its rows in another order, or is drawn at random."""
HEAD_NOTES: Mapping[HeadStart, str] = {
    "kept": "",
    "moved": "; its head has the same classes in another order: its rows were moved to theirs",
    "drawn": " (the checkpoint's head is of other classes)",
}


def match_head(model: PreTrainedModel, stored: Sequence[str], labels: Task) -> HeadStart:
    """Give each class the row of the loaded head that was trained for it, and return what was done.

    A checkpoint with as many classes loads without an error, whatever they are. ``stored`` has their names,
    by row. Where these are the names of the data in another order, rows are moved; where they are others, the
    head starts anew: a row of another class would have to be unlearned first. The head of a regression has
    one row, and stays.
    """
    if labels.matches_head(stored):
        return "kept"
    weights = dict(model.named_parameters())
    names = _output_weights(model)
    if set(stored) == set(labels.output_names):
        rows = torch.tensor([list(stored).index(name) for name in labels.output_names])
        with torch.no_grad():
            for name in names:
                weights[name].copy_(weights[name][rows])
        return "moved"
    for name in names:
        if name.endswith(".weight"):
            layer: nn.Module = model.get_submodule(name.removesuffix(".weight"))
            for parameter in layer.parameters():
                vars(parameter).pop("_is_hf_initialized", None)  # else transformers leaves what was loaded
            model._init_weights(layer)  # type: ignore[no-untyped-call]
    return "drawn"


def _output_weights(model: PreTrainedModel) -> list[str]:
    """Return the names of the weight and bias of the output layer; an empty list without one."""
    name = _output_layer(model)
    if name is None:
        return []
    return [f"{name}.{part}" for part, _ in model.get_submodule(name).named_parameters()]


def _output_layer(model: PreTrainedModel) -> str | None:
    """Return the name of the last linear layer behind the body that has as many rows as the model has outputs."""
    body = f"{model.base_model_prefix}."
    layers = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and not name.startswith(body)
    ]
    return next(
        (name for name, layer in reversed(layers) if layer.out_features == model.config.num_labels), None
    )


def adapt(model: PreTrainedModel, params: TrainParams, drawn: Collection[str]) -> nn.Module:
    """Enable gradient checkpointing, freeze modules or add LoRA adapters, as the parameters say."""
    if params.gradient_checkpointing:
        enable: Any = model.gradient_checkpointing_enable
        enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if params.lora is not None:
        return add_adapters(model, params.lora, drawn)
    freeze(model, params.freeze)
    return model


def freeze(model: PreTrainedModel, names: list[str]) -> None:
    """Freeze modules and everything inside them; names are dotted, with or without the model's own prefix: ``encoder.layer.0``."""
    for name in names:
        modules = dict(model.named_modules())
        module = modules.get(name) or modules.get(f"{model.base_model_prefix}.{name}")
        if not name or module is None:
            available = ", ".join(child for child, _ in model.base_model.named_children())
            raise ParamsError(
                f"train.freeze: the model has no module {name!r}.",
                f"Choose from {available}, or modules inside them.",
            )
        module.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ParamsError(
            "train.freeze: all parameters are frozen.", "Remove the classification head from train.freeze."
        )


def add_adapters(model: PreTrainedModel, params: LoraParams, drawn: Collection[str]) -> nn.Module:
    """Return the model with LoRA adapters (Hu et al.

    2021). Besides them, the modules of ``trained_modules`` learn.
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
        linear = sorted(
            {
                name.rpartition(".")[2]
                for name, module in model.named_modules()
                if isinstance(module, nn.Linear)
            }
        )
        raise ParamsError(
            f"train.lora.target_modules: {error}", f"Linear layers of this model: {', '.join(linear)}"
        ) from None
    return adapted


def trained_modules(model: PreTrainedModel, drawn: Collection[str]) -> list[str]:
    """Return the modules that learn as a whole: those outside of the body, and the body's pooler if it was drawn at random.

    peft alone trains modules named ``classifier`` and ``score``, and would leave what is drawn between them
    and the body (the pooler of BERT, ``head`` of ModernBERT, ``pre_classifier`` of DistilBERT) at random
    values.
    """
    body = model.base_model_prefix
    heads = [
        name
        for name, module in model.named_children()
        if name != body and next(module.parameters(), None) is not None
    ]
    poolers = {
        name[: name.index(".pooler.")] + ".pooler"
        for name in drawn
        if name.startswith(f"{body}.") and ".pooler." in name
    }
    return [*heads, *sorted(poolers)]


def compute_first_token_only(model: PreTrainedModel) -> bool:
    """Restrict the last layer to the first token, and return True, if the model type's classifier reads only that one.

    After the last attention, no information passes between tokens. So query and attention output (a twelfth
    of a layer's arithmetic each) and the feed-forward part (two thirds) are needed for the first token only.
    Logits and gradients are those of the full layer; dropout draws fewer masks, so runs with and without this
    differ like runs with two seeds. Neither the names of the weights nor the saved files change. Layers that
    share their weights (ALBERT) are not restricted, and neither is a single one, after which DeBERTa has a
    convolution.
    """
    architecture = architecture_of(model.config.to_dict())
    name = architecture.after_attention
    layers = max(
        (module for module in model.base_model.modules() if isinstance(module, nn.ModuleList)),
        key=len,
        default=nn.ModuleList(),
    )
    if name is None or len(layers) < 2:
        return False
    layers[-1].get_submodule(name).register_forward_pre_hook(
        lambda _, inputs: tuple(tensor[:, :1] for tensor in inputs)
    )
    if architecture.query is not None and model.config._attn_implementation == "sdpa":
        _attend_with_first_token(layers[-1], architecture.query)
    return True


def _attend_with_first_token(layer: nn.Module, query: str) -> None:
    """Compute queries and attention of a layer for the first token only.

    The other tokens get copies of its result, which nothing reads.
    """
    projection: Any = layer.get_submodule(query)
    projection.forward = MethodType(_project_first_token, projection)
    attention: Any = layer.get_submodule(query.rpartition(".")[0])
    attention.config = copy.copy(attention.config)
    attention.config._attn_implementation = "of_first_token"
    AttentionInterface.register("of_first_token", _first_token_attention)


def _project_first_token(linear: nn.Linear, hidden: Tensor) -> Tensor:
    """Return the query of the first token, repeated for all tokens, of shape ``(batch, tokens, features)``."""
    return type(linear).forward(linear, hidden[:, :1].contiguous()).expand(-1, hidden.shape[1], -1)


def _first_token_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """Return what the first token attends to, repeated for all tokens, of shape ``(batch, tokens, heads, features)``, and no weights."""
    first = None if mask is None else mask[:, :, :1]
    output, weights = ALL_ATTENTION_FUNCTIONS["sdpa"](module, query[:, :, :1], key, value, first, **options)
    return output.expand(-1, query.shape[2], -1, -1), weights


@dataclass(frozen=True)
class TargetScale:
    """Mean and standard deviation (1 if all are equal) of the training targets, applied to the output of the linear layer ``head``."""

    head: str
    mean: float
    deviation: float
    hook: RemovableHandle

    @classmethod
    def apply(cls, model: PreTrainedModel, drawn: Collection[str], targets: NDArray[Any]) -> Self | None:
        """Let a regression model predict in the unit of the targets, if its head was drawn at random and has a bias.

        A head that was loaded predicts in its own unit already. The targets, shape ``(rows,)``, are those of
        the train split.
        """
        head = _output_layer(model)
        if head is None or f"{head}.bias" not in drawn:
            return None
        mean = _mean(targets, lambda values: values)
        deviation = math.sqrt(_mean(targets, lambda values: (values - mean) ** 2)) or 1.0

        def restore(_: nn.Module, __: Any, output: Tensor) -> Tensor:
            return output.float() * deviation + mean

        return cls(head, mean, deviation, model.get_submodule(head).register_forward_hook(restore))

    def fold(self, weights: dict[str, Tensor]) -> None:
        """Make the scale part of trained weights, and remove the hook."""
        self.hook.remove()
        weight, bias = f"{self.head}.weight", f"{self.head}.bias"
        weights[weight] = (
            weights[weight].float() * self.deviation
        )  # new tensors: those of the model stay as they were trained
        weights[bias] = weights[bias].float() * self.deviation + self.mean


def _mean(targets: NDArray[Any], function: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> float:
    """Return the mean of a function of the finite targets."""
    parts = (targets[start : start + _PART] for start in range(0, len(targets), _PART))
    finite = (part[np.isfinite(part)].astype(np.float64) for part in parts)
    sums = [(float(function(values).sum()), len(values)) for values in finite]
    return sum(total for total, _ in sums) / sum(count for _, count in sums)
