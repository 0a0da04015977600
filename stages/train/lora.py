"""LoRA: low-rank adapters and the head are trained, the rest is frozen; the published model has the adapters merged into its weights."""

from collections.abc import Collection
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from tuneline.errors import ParamsError
from tuneline.params.train import LoraParams


def add_adapters(model: PreTrainedModel, params: LoraParams, drawn: Collection[str]) -> nn.Module:
    """Return the model with LoRA adapters (Hu et al. 2021). Besides them, the modules of ``trained_modules`` learn.

    Args:
        model: Model, changed in place.
        params: Section ``train.lora``.
        drawn: Names of the weights that were drawn at random.

    Raises:
        ParamsError: The model has no layer to adapt.
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
        linear = sorted({name.rpartition(".")[2] for name, module in model.named_modules() if isinstance(module, nn.Linear)})
        raise ParamsError(f"train.lora.target_modules: {error}", f"Linear layers of this model: {', '.join(linear)}") from None
    return adapted


def trained_modules(model: PreTrainedModel, drawn: Collection[str]) -> list[str]:
    """Return the modules that learn as a whole: those outside of the body, and the body's pooler if it was drawn at random.

    peft alone trains modules named ``classifier`` and ``score``, and would leave what is drawn between them and the body (the pooler of
    BERT, ``head`` of ModernBERT, ``pre_classifier`` of DistilBERT) at random values.
    """
    body = model.base_model_prefix
    heads = [name for name, module in model.named_children() if name != body and next(module.parameters(), None) is not None]
    poolers = {name[: name.index(".pooler.")] + ".pooler" for name in drawn if name.startswith(f"{body}.") and ".pooler." in name}
    return [*heads, *sorted(poolers)]


def merge_adapters(adapted: Any) -> PreTrainedModel:
    """Return the plain model, with the adapters added to the weights that they adapt."""
    plain: PreTrainedModel = adapted.merge_and_unload()
    return plain
