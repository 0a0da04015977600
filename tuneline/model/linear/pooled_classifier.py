"""A classifier of pooled vectors: an encoder, frozen or fine-tuned, and a linear head on top.

``load_classifier`` loads a trained model of either kind: such a classifier, or one of transformers.
``start_threads`` lets torch compute it with the same bits in every process.
Importing this module imports torch.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.modeling_outputs import SequenceClassifierOutput

from tuneline.core.runtime.errors import ParamsError
from tuneline.model.linear.linear_model import pair_features, pair_width
from tuneline.model.tokens.architectures import Pooling
from tuneline.model.tokens.encoded_columns import pair_separators

ENCODER = "encoder"
"""Variant of the weights: they are in ``model.encoder.safetensors``.

Under the usual name, ``AutoModelForSequenceClassification`` would load them with a random head and a warning.
"""
HEAD = "head.safetensors"
"""File with ``weight`` and ``bias`` of the head."""
POOLED_KEY = "pooled_head"
"""Key of ``config.json`` that such a classifier has, and no other."""


LinearHead = Mapping[str, Tensor]
"""``weight`` and ``bias`` of a head, on the CPU."""


def pooled(
    encoder: PreTrainedModel, pooling: Pooling, input_ids: Tensor, attention_mask: Tensor, **others: Tensor
) -> Tensor:
    """Return the vector of each row, shape ``(batch, hidden)``; rows are padded on the right.

    Source: Reimers & Gurevych, "Sentence-BERT", 2019, arXiv:1908.10084.
    """
    outputs = encoder(input_ids=input_ids, attention_mask=attention_mask, **others)
    states: Tensor = outputs.last_hidden_state
    if pooling == "cls":
        return states[:, 0]
    mask = attention_mask.unsqueeze(-1)
    return (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)


@dataclass(frozen=True)
class PairTemplate:
    """How a tokenizer joins two texts, see ``pair_separators``."""

    separator: int
    """Token id of the separator."""
    count: int
    """Separators between the two texts."""

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast) -> Self:
        """Read it from a tokenizer; raise a ParamsError if it joins texts in another way."""
        separators = pair_separators(tokenizer)
        if separators is None:
            raise ParamsError(
                "model.head: 'frozen' encodes the texts of a pair one by one, and cannot see where the second"
                " one begins: the tokenizer of model.checkpoint does not join them as BERT or RoBERTa do.",
                "Set model.head to null, or choose a checkpoint such as BERT, RoBERTa, DeBERTa or"
                " ModernBERT.",
            )
        separator, count = separators
        return cls(separator, count)

    def separate(self, input_ids: Tensor, attention_mask: Tensor, padding: int) -> tuple[Tensor, Tensor]:
        """Turn a batch of pairs into a batch of texts, as if each text was encoded alone.

        All first texts come before all second texts.

        Args:
            input_ids: Token ids, int64 of shape ``(batch, tokens)``, padded on the right.
            attention_mask: 1 for tokens and 0 for padding, of the same shape.
            padding: Id that replaces tokens of the other text.

        Returns:
            Ids and mask of shape ``(2 * batch, longest text)``.
        """
        # the second text, moved to the front
        position = torch.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0)
        end = (input_ids == self.separator).long().argmax(dim=1, keepdim=True)
        source = position + end + self.count - 1  # the second text moves to the front, behind the first token
        inside = source.clamp(max=input_ids.shape[1] - 1)
        second_mask = attention_mask.gather(1, inside) * (source == inside)
        second_ids = torch.where(position == 0, input_ids[:, :1], input_ids.gather(1, inside))

        mask = torch.cat([attention_mask * (position <= end), second_mask])
        ids = torch.where(mask == 1, torch.cat([input_ids, second_ids]), padding)

        # without the columns that are padding in every row
        longest: Any = mask.sum(dim=1).max().item()
        check: Any = torch._check  # tells the exporter the range of a length that depends on the values
        check(longest >= 2)  # else a dimension could be a constant 1
        check(longest <= input_ids.shape[1])
        return ids[:, :longest], mask[:, :longest]


def encoder_of(model: PreTrainedModel) -> PreTrainedModel:
    """Return the body of a model of transformers."""
    encoder = model.base_model
    if not isinstance(encoder, PreTrainedModel):
        raise AssertionError(f"{type(model).__name__} has no base model")
    return encoder


class PooledClassifier(nn.Module):
    """An encoder and a linear head on its pooled vectors.

    The features of one text are its vector. Of a pair, both texts are encoded alone, because a checkpoint was
    not trained on what joins them, and ``pair_features`` compares their vectors.

    Attributes:
        encoder: The checkpoint without a head of its own. A pooler that it has is not used, and not trained.
        template: How two texts are joined; ``None`` for rows of one text.
        pooling: How the vectors of tokens become that of a text.
        head: Linear layer of the outputs.

    ``is_frozen`` is recorded in the configuration: the weights of the encoder are those of the checkpoint.
    """

    base_model_prefix = "encoder"
    """Name of the body, as models of transformers have it."""

    def __init__(
        self,
        encoder: PreTrainedModel,
        template: PairTemplate | None,
        pooling: Pooling = "mean",
        *,
        is_frozen: bool = True,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.template = template
        self.pooling: Pooling = pooling
        pooler = getattr(encoder, "pooler", None)
        if isinstance(pooler, nn.Module):
            pooler.requires_grad_(False)
        width = encoder.config.hidden_size
        pair = None
        features = width
        if template is not None:
            pair = asdict(template)
            features = pair_width(width)
        encoder.config.update({POOLED_KEY: {"pooling": pooling, "pair": pair, "frozen": is_frozen}})
        self.head = nn.Linear(features, len(encoder.config.id2label or ()))

    @property
    def config(self) -> PretrainedConfig:
        """Configuration of the encoder, with the label names and ``POOLED_KEY``."""
        return self.encoder.config

    def gradient_checkpointing_enable(self, **options: Any) -> None:
        """Let the encoder compute activations again in the backward pass, as transformers does."""
        enable: Any = self.encoder.gradient_checkpointing_enable
        enable(**options)

    def features(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the features of a batch of rows, float32 of shape ``(batch, features)``."""
        if self.template is None:
            return pooled(self.encoder, self.pooling, input_ids, attention_mask)
        ids, mask = self.template.separate(input_ids, attention_mask, self.config.pad_token_id or 0)
        vectors = pooled(self.encoder, self.pooling, ids, mask)
        rows = input_ids.shape[0]
        return torch.cat(pair_features(vectors[:rows], vectors[rows:]), dim=1)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **_: Tensor) -> SequenceClassifierOutput:
        """Return an output with ``logits``, float32 of shape ``(batch, outputs)``.

        In training mode, ``hidden_states`` has the features as its only member. Each text has the token type
        0: others are ignored.
        """
        features = self.features(input_ids, attention_mask)
        return SequenceClassifierOutput(
            logits=self.head(features), hidden_states=(features,) if self.training else None
        )

    def save_pretrained(self, folder: Path, state_dict: Mapping[str, Tensor]) -> None:
        """Write the encoder with ``config.json``, as ``AutoModel`` loads its variant, and the head."""
        parts: dict[str, dict[str, Tensor]] = {"encoder": {}, "head": {}}
        for name, values in state_dict.items():
            part, _, name_in_part = name.partition(".")
            parts[part][name_in_part] = values.cpu().contiguous()
        self.encoder.save_pretrained(folder, state_dict=parts["encoder"], variant=ENCODER)
        save_file(parts["head"], folder / HEAD)


TrainedModel = PreTrainedModel | PooledClassifier
"""Model in ``models/classifier/``."""


def load_classifier(folder: Path, attention: str) -> TrainedModel:
    """Load a trained model in float32 and evaluation mode: safetensors only, no remote code.

    Args:
        folder: The folder of the model.
        attention: Implementation of attention in transformers, such as ``sdpa``.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    auto_class: Any = AutoModelForSequenceClassification
    variant = None
    if POOLED_KEY in config:
        auto_class = AutoModel
        variant = ENCODER
    model: PreTrainedModel = auto_class.from_pretrained(
        folder,
        dtype=torch.float32,
        attn_implementation=attention,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        variant=variant,
    )
    model.train(False)
    if variant is None:
        return model

    # the head, which transformers does not know
    record = config[POOLED_KEY]
    template = None if record["pair"] is None else PairTemplate(**record["pair"])
    classifier = PooledClassifier(model, template, record["pooling"], is_frozen=record["frozen"])
    classifier.head.load_state_dict(load_file(folder / HEAD))
    return classifier.train(False)


def start_threads(number: int) -> None:
    """Let torch compute with a number of threads, always with the same bits.

    The vector functions of MKL prepare themselves in their first call. If several threads make it at once,
    one of them can compute with less accuracy: in about 1 of 2,000 processes, half of the rows of the first
    batch had logits that differed by 1e-4. So one thread makes the first call.
    """
    torch.set_num_threads(number)
    torch.tanh(torch.zeros(1))
