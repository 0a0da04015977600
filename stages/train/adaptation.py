"""Which parameters learn: all, those not frozen, or low-rank adapters."""

from typing import Any

from torch import nn
from transformers import PreTrainedModel

from tuneline.errors import ParamsError
from tuneline.params import TrainParams
from tuneline.params.train import LoraParams


def adapt(model: PreTrainedModel, params: TrainParams) -> nn.Module:
    """Freezes what is to stay, or puts LoRA's adapters in.

    Raises:
        ParamsError: ``train.freeze`` names nothing in the model, or everything; or LoRA finds nothing to adapt.
    """
    if params.gradient_checkpointing:
        enable: Any = model.gradient_checkpointing_enable
        enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if params.lora is not None:
        return _with_adapters(model, params.lora)
    freeze(model, params.freeze)
    return model


def freeze(model: PreTrainedModel, names: list[str]) -> None:
    """Freezes the modules of these names, with all that is in them.

    Args:
        model: Changed in place.
        names: Dotted names, with or without the model's own prefix: ``embeddings``, ``encoder.layer.0``.
    """
    for name in names:
        modules = dict(model.named_modules())
        module = modules.get(name) or modules.get(f"{model.base_model_prefix}.{name}")
        if not name or module is None:
            inside = ", ".join(child for child, _ in model.base_model.named_children())
            raise ParamsError(f"train.freeze: the model has no part named {name!r}.", f"Its parts: {inside}, and what is inside of them.")
        module.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ParamsError("train.freeze: nothing is left to learn.", "Leave the head out of it.")


def _with_adapters(model: PreTrainedModel, params: LoraParams) -> nn.Module:
    """LoRA (Hu et al. 2021): everything is frozen but the adapters and the head."""
    from peft import LoraConfig, TaskType, get_peft_model

    config = LoraConfig(
        task_type=TaskType.SEQ_CLS,
        r=params.rank,
        lora_alpha=params.alpha,
        lora_dropout=params.dropout,
        target_modules=params.target_modules,
    )
    try:
        adapted: nn.Module = get_peft_model(model, config)
    except ValueError as error:
        inside = sorted({name.rpartition(".")[2] for name, module in model.named_modules() if isinstance(module, nn.Linear)})
        raise ParamsError(f"train.lora.target_modules: {error}", f"Linear layers of this model: {', '.join(inside)}") from None
    return adapted


def merged(adapted: Any) -> PreTrainedModel:
    """The plain model again: adapters are added to the weights they adapt."""
    plain: PreTrainedModel = adapted.merge_and_unload()
    return plain
