"""The trained model at work on a whole split."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from accelerate import PartialState
from numpy.typing import NDArray
from tqdm import tqdm
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from stages.batches import TokenizedSplit, length_sorted_batches
from stages.errors import DataError, StageError
from stages.tables import Labels

Logits = NDArray[np.float32]


@dataclass(frozen=True)
class Classifier:
    """A trained model on its device.

    Attributes:
        model: In evaluation mode.
        device: The accelerator, where there is one.
        pad_token_id: Of its tokenizer.
    """

    model: PreTrainedModel
    device: torch.device
    pad_token_id: int

    @classmethod
    def load(cls, folder: Path, labels: Labels) -> "Classifier":
        """Loads ``models/classifier``: safetensors only, no code that lies beside it.

        Raises:
            StageError: The folder does not hold a model.
            DataError: The model does not have the labels of the data.
        """
        disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            model = AutoModelForSequenceClassification.from_pretrained(
                folder, use_safetensors=True, attn_implementation="sdpa", dtype=torch.float32
            )
            tokenizer = AutoTokenizer.from_pretrained(folder)
        except Exception as error:  # safetensors and transformers have no common base for what a broken file raises
            raise StageError(f"{folder} cannot be loaded: {str(error).splitlines()[0]}", "Train again: `dvc repro -f train`.") from None
        if model.config.num_labels != labels.outputs:
            raise DataError(
                f"{folder} tells {model.config.num_labels} classes apart; the data has {labels.outputs}.", "Train again: `dvc repro train`."
            )
        device = PartialState().device
        return cls(model.to(device).eval(), device, tokenizer.pad_token_id)

    def logits(self, split: TokenizedSplit, batch_size: int) -> Logits:
        """Logits of every row.

        Args:
            split: The rows.
            batch_size: Rows in one forward pass. Rows of like length are run together.

        Returns:
            float32 of shape ``[rows, outputs]``, in the order of the split.

        Raises:
            AssertionError: A row was counted twice, or not at all.
        """
        logits = np.empty((len(split), split.spec.outputs), dtype=np.float32)
        seen = np.zeros(len(split), dtype=np.int64)
        with torch.inference_mode(), tqdm(total=len(split), desc="predict", unit="row", disable=None) as bar:
            for rows in length_sorted_batches(split.lengths, batch_size):
                inputs = {name: torch.from_numpy(values).to(self.device) for name, values in split.pad(rows, self.pad_token_id).items()}
                logits[rows] = self.model(**inputs).logits.float().cpu().numpy()
                seen[rows] += 1
                bar.update(len(rows))
        if not (seen == 1).all():
            raise AssertionError(f"{np.count_nonzero(seen != 1)} rows of {len(split)} were not counted exactly once")
        return logits
