import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from tests.tuneline.training import launcher, tiny_task
from tests.tuneline.training.test_frozen_head import prepared_with
from tuneline.core.stage.tables import SplitReader
from tuneline.model.linear.pooled_classifier import load_classifier
from tuneline.model.tokens.tokenized_splits import TokenizedSplit
from tuneline.training.publication import averaged


def test_average_is_as_far_from_the_start_as_its_share():
    start = {"head.weight": torch.tensor([0.0, 1.0])}
    tuned = {"head.weight": torch.tensor([4.0, 1.0]), "not in the start": torch.zeros(1)}
    assert averaged(start, tuned, 0.25).keys() == start.keys()
    assert averaged(start, tuned, 0.25)["head.weight"].tolist() == [1.0, 1.0]


def test_published_weights_have_the_logits_and_the_loss_by_which_they_were_chosen(tmp_path, data):
    model = {**tiny_task.FINE_TUNED, "head": "auto"}
    # so high a rate that an average is best, on the processors that this was tried on
    folder = prepared_with(tmp_path, data, model, epochs=3, learning_rate=0.015, keep="last")
    assert launcher.run(folder) == [0], launcher.output(folder)
    metrics = launcher.metrics(folder)
    assert metrics["head_tuned_share"] > 0
    recorded = np.stack(pq.read_table(folder / "reports/validation.parquet")["logits"].to_numpy())

    split = TokenizedSplit.read(SplitReader.open(folder / "data/tokenized", "validation", "tokenize"))
    classifier = load_classifier(folder / "models/classifier", "sdpa")
    inputs = {name: torch.from_numpy(values) for name, values in split.pad(np.arange(len(split)), 0).items()}
    with torch.inference_mode():
        logits = classifier(**inputs).logits
    np.testing.assert_allclose(logits.numpy(), recorded, atol=1e-4)
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(split.labels))
    if metrics["head_tuned_share"] < 1:
        assert metrics["best_loss"] == pytest.approx(float(loss), abs=1e-3)
