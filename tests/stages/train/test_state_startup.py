import re

import pytest
import torch

from stages.train import state
from stages.train.state import describe_labels
from tests.stages.train import tiny_task
from tuneline.runtime.errors import DataError
from tuneline.tasks import Classification, Regression


def test_startup_summary_has_device_parameters_shapes_and_initial_loss(trained, capsys):
    trained(tiny_task.params())
    output = capsys.readouterr().out
    assert "cpu " in output
    assert "float32, 1 process" in output
    assert "5,859 of 5,859 parameters are trainable" in output
    assert "the last layer computes only the first token" in output
    assert "first micro-batch: input_ids (4, 1" in output
    assert re.search(r"its labels \(4,\) int64: ([012] (billing|delivery|technical)(, )?){4}\n", output)
    assert "its logits (4, 3) float32" in output
    assert "a uniform prediction gives 1.0986" in output
    assert "WARNING" not in output


def test_labels_are_described_with_their_names_and_only_the_first_ones():
    names = Classification(("no", "yes"))
    assert describe_labels(torch.tensor([1, 0]), names) == "(2,) int64: 1 yes, 0 no"
    assert describe_labels(torch.zeros(9, dtype=torch.int64), names).endswith("0 no, ...")
    assert describe_labels(torch.tensor([0.5, 3.0]), Regression()) == "(2,) float32: 0.5, 3"


def test_uniform_prediction_has_the_same_loss_with_class_weights(trained, capsys):
    trained(tiny_task.params(class_weights={"billing": 3.0}, epochs=1))
    assert "a uniform prediction gives 1.0986" in capsys.readouterr().out


def test_startup_summary_warns_of_a_high_initial_loss(trained, capsys):
    trained(tiny_task.params({"initializer_range": 30.0}, max_grad_norm=1.0, epochs=1))
    assert (
        "WARNING: the initial loss is far higher than that of a uniform prediction" in capsys.readouterr().out
    )


def test_initial_loss_of_nan_stops_before_the_first_step(trained, monkeypatch):
    build = state.build_model

    def build_with_nan(*arguments):
        model, drawn = build(*arguments)
        torch.nn.init.constant_(model.classifier.bias, torch.nan)
        return model, drawn

    monkeypatch.setattr(state, "build_model", build_with_nan)
    with pytest.raises(DataError, match="first step is nan"):
        trained(tiny_task.params())
