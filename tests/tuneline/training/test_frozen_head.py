"""The stage with ``model.head: frozen``, in processes of its own."""

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from tests.tuneline.training import launcher, tiny_task
from tests.tuneline.training.conftest import fill
from tuneline.core.stage.tables import SplitReader
from tuneline.model.linear.linear_model import LinearModel
from tuneline.model.linear.pooled_classifier import load_classifier, pooled
from tuneline.model.tokens.tokenized_splits import TokenizedSplit

FROZEN = {**tiny_task.FINE_TUNED, "head": "frozen"}


def prepared(folder, data, **train):
    """A project with a frozen checkpoint, and rows of one text."""
    return prepared_with(folder, data, FROZEN, **train)


def prepared_with(folder, data, model, **train):
    """A project with a checkpoint, rows of one text, and a section ``model``."""
    fill(folder, data)
    tiny_task.write_checkpoint(folder)
    tiny_task.write_params(folder, model, **train)
    values = tiny_task.YAML(typ="safe").load(folder / "params.yaml")
    values["data"]["text_columns"] = ["body"]
    tiny_task.YAML(typ="safe").dump(values, folder / "params.yaml")
    return folder


@pytest.fixture(scope="module")
def project(tmp_path_factory, data):
    """A project in which the stage has run. Only read it."""
    folder = prepared(tmp_path_factory.mktemp("frozen"), data)
    assert launcher.run(folder) == [0], launcher.output(folder)
    return folder


def vectors(project, name, pooling="mean"):
    """Return the vectors of a split by transformers alone, one row at a time, and its labels."""
    split = TokenizedSplit.read(SplitReader.open(project / "data/tokenized", name, "tokenize"))
    encoder = load_classifier(project / "models/classifier", "sdpa").encoder
    with torch.inference_mode():
        rows = [split.pad(np.array([row]), 0) for row in range(len(split))]
        values = [
            pooled(
                encoder,
                pooling,
                **{key: torch.from_numpy(row[key]) for key in ("input_ids", "attention_mask")},
            )
            for row in rows
        ]
    return torch.cat(values).numpy(), split.labels


def test_encoder_is_the_checkpoint_unchanged(project):
    before = load_file(project / "models/base/model/model.safetensors")
    after = load_file(project / "models/classifier/model.encoder.safetensors")
    assert after.keys() == {name.removeprefix("bert.") for name in before if name.startswith("bert.")}
    assert all(torch.equal(values, before[f"bert.{name}"]) for name, values in after.items())


def test_linear_model_is_of_the_first_token_if_the_checkpoint_says_so(tmp_path, data):
    project = prepared(tmp_path, data)
    (project / "models/base/model/1_Pooling").mkdir()
    (project / "models/base/model/1_Pooling/config.json").write_text('{"pooling_mode": "cls"}')
    assert launcher.run(project) == [0], launcher.output(project)
    assert_published_probabilities(project, "cls")


def test_contrastive_loss_makes_vectors_of_a_class_more_alike(tmp_path, data):
    alike = []
    for name, share in (("without", 0.0), ("with", 0.9)):
        model = {**tiny_task.FINE_TUNED, "config": tiny_task.WITHOUT_DROPOUT}
        train = {"contrastive": share, "learning_rate": 1e-3, "epochs": 4}
        folder = prepared_with(tmp_path / name, data, model, **train)
        assert launcher.run(folder) == [0], launcher.output(folder)
        values, labels = vectors(folder, "train")
        directions = values / np.linalg.norm(values, axis=1, keepdims=True)
        cosines = directions @ directions.T
        same = labels[:, None] == labels
        alike.append(cosines[same].mean() - cosines[~same].mean())
    assert alike[1] > 1.5 * alike[0]


def test_published_probabilities_are_those_of_the_pipeline_that_validation_chose(project):
    assert_published_probabilities(project, "mean")


def assert_published_probabilities(project, pooling):
    train, validation = (vectors(project, split, pooling) for split in ("train", "validation"))
    expected = LinearModel.fit(train, validation, tiny_task.CLASSES).model.predict_proba(validation[0])
    logits = np.stack(pq.read_table(project / "reports/validation.parquet")["logits"].to_numpy())
    np.testing.assert_allclose(torch.from_numpy(logits).softmax(dim=1).numpy(), expected, atol=1e-4)


def test_measurements_are_one_evaluation_and_no_invented_curve(project):
    metrics = launcher.metrics(project)
    assert (metrics["steps"], metrics["best_step"]) == (0, 0)
    assert metrics["best_accuracy_low"] <= metrics["best_accuracy"] <= metrics["best_accuracy_high"]
    assert launcher.curve(project) == []
    assert launcher.curve(project, "validation") == [
        [0, pytest.approx(metrics["best_loss"]), pytest.approx(metrics["best_accuracy"])]
    ]


@pytest.mark.parametrize("processes", [1, 2])
def test_second_run_and_two_processes_give_the_same_bytes(tmp_path, data, project, processes):
    again = prepared(tmp_path, data, launch="cpu" if processes == 1 else "auto")
    assert launcher.run(again, processes, {"OMP_NUM_THREADS": torch.get_num_threads()}) == [0] * processes, (
        launcher.output(again)
    )
    if processes == 1:
        assert launcher.outs(again) == launcher.outs(project)
    else:
        assert launcher.outs(again).keys() == launcher.outs(project).keys()
        assert "fitted" not in launcher.output(again, rank=1)
        assert launcher.metrics(again) == pytest.approx(launcher.metrics(project), abs=1e-4)
