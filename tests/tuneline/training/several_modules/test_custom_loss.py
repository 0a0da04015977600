"""A loss and a validation metric of the user: checks, training and resume."""

import json

import pytest
import torch

from tests.custom_functions import EXAMPLES, STAGES, write_functions
from tests.project import Project
from tests.tuneline.training import launcher, tiny_task
from tests.tuneline.training.conftest import fill
from tuneline.core.runtime.errors import ParamsError
from tuneline.model.tasks import Regression
from tuneline.training.losses import Loss
from tuneline.training.optimization import load_loss

FOCAL = {"loss": "project/losses.py:focal"}
LOGITS = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(40) % 3
NUMBERS = Regression()


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Return a function that loads a loss of docs/custom-loss.md, or ``own`` in other code."""
    monkeypatch.chdir(tmp_path)

    def load(code=None, labels=tiny_task.CLASSES):
        write_functions(
            tmp_path, **({} if code is None else {"files": {"project/losses.py": f"import torch\n{code}"}})
        )
        name = "own" if code else "focal"
        return load_loss(tiny_task.params(loss=f"project/losses.py:{name}").train, labels)

    return load


def test_focal_loss_follows_its_formula(load):
    p = LOGITS.double().softmax(dim=1)[torch.arange(40), LABELS]
    torch.testing.assert_close(
        load()(LOGITS, LABELS).double(), -((1 - p) ** 2) * p.log(), atol=1e-6, rtol=1e-5
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "return torch.nn.functional.cross_entropy(logits, labels)",
            r"returns a Tensor of shape \(\) for 6 examples",
        ),
        (
            "return (logits.sum(1) - logits.sum(1).mean()) ** 2",
            "gives an example another loss in a smaller batch",
        ),
    ],
)
def test_unsuitable_loss_is_refused_with_parameter_file_and_function(load, body, message):
    with pytest.raises(ParamsError, match=rf"train\.loss: project/losses\.py:own {message}"):
        load(f"def own(logits, labels):\n    {body}")


def test_loss_of_a_regression_gets_two_vectors(load):
    own = load("def own(predictions, labels):\n    return (predictions - labels).abs()", NUMBERS)
    losses = Loss(Regression(), function=own).per_example(
        torch.tensor([[1.0], [3.0]]), torch.tensor([2.0, 5.0])
    )
    assert losses.tolist() == [1.0, 2.0]


def training_on(file):
    """Return the pipeline, whose training depends on one more file."""
    losses = "      - project/losses.py"
    return STAGES.replace(losses, f"      - {file}\n{losses}")


def test_micro_batches_of_a_custom_loss_do_not_change_the_training_curve(project, trained):
    write_functions(project, pipeline=STAGES)
    curves = []
    for size in (2, 8):
        outcome = trained(
            tiny_task.params(
                tiny_task.WITHOUT_DROPOUT, **FOCAL, micro_batch_size=size, class_weights="balanced"
            )
        )
        curves.append([row.loss for row in outcome.state.progress.logged])
    assert curves[0] == pytest.approx(curves[1], abs=1e-4)


def test_custom_metric_selects_the_best_weights_in_its_direction(project, trained, capsys):
    """The learning rate is so high that the accuracy first rises and then falls; cost is lowest where it is
    highest."""
    write_functions(project, pipeline=training_on("project/metrics.py"))
    settings = {"learning_rate": 0.5, "warmup_ratio": 0.9, "epochs": 4}
    outcome = trained(
        tiny_task.params(tiny_task.WITHOUT_DROPOUT, metric="project/metrics.py:cost", **settings)
    )
    progress = outcome.state.progress
    assert (
        progress.best.metric
        == min(row.metric for row in progress.evaluated)
        < max(row.metric for row in progress.evaluated)
    )
    assert f", cost {progress.best.metric:.4f} (best)" in capsys.readouterr().out


@pytest.fixture
def folder(tmp_path, data):
    """A project with the focal loss in a file that another one imports."""
    tiny_task.write_params(
        fill(tmp_path, data), loss="project/own.py:focal", epochs=3, checkpoint_every_steps=3
    )
    files = {**EXAMPLES, "project/own.py": "from project.losses import focal"}
    write_functions(tmp_path, files, training_on("project/own.py"))
    return tmp_path


def killed_at_step_12(folder):
    launcher.run(folder, before=launcher.kill_at("tuneline.training.loop.train_batch", 12))


@pytest.mark.parametrize(
    "file", [pytest.param("project/own.py", marks=pytest.mark.slow), "project/losses.py"]
)
def test_changed_loss_file_starts_a_new_run_at_step_0(folder, file):
    killed_at_step_12(folder)
    with (folder / file).open("a") as code:
        code.write("\n# the same function, but who knows\n")
    assert launcher.run(folder) == [0], launcher.output(folder)
    assert "resumes from step" not in launcher.output(folder)
    assert launcher.metrics(folder)["steps"] == 24


@pytest.mark.slow
def test_launched_training_uses_the_loss_and_reruns_when_its_file_changes(tmp_path):
    """`dvc repro train` through accelerate-launch: the file is in the provenance, a change of it trains
    again, one of a metric does not."""
    project = Project.copy_to(tmp_path)
    project.set_params({**tiny_settings(), "train.loss": "project/losses.py:focal"})
    project.run("dvc", "repro", "train")
    first = provenance(tmp_path)
    assert first["parameters"]["train"]["loss"] == "project/losses.py:focal"

    with (tmp_path / "project/metrics.py").open("a") as file:
        file.write("\n# another comment\n")
    assert "train" not in project.run("dvc", "status", "train").stdout

    losses = tmp_path / "project/losses.py"
    losses.write_text(losses.read_text().replace("** gamma", "** (gamma + 1)"))
    assert "project/losses.py" in project.run("dvc", "status", "train").stdout
    output = project.run("dvc", "repro", "train").stdout
    assert "resumes from step" not in output
    assert "step" in output
    assert provenance(tmp_path)["code"] != first["code"]


def tiny_settings():
    return {
        "data.sample.rows": 300,
        "tokenize.vocab_size": 300,
        "model.config.hidden_size": 16,
        "model.config.num_hidden_layers": 1,
        "model.config.num_attention_heads": 2,
        "model.config.intermediate_size": 32,
        "train.epochs": None,
        "train.max_steps": 4,
    }


def provenance(folder):
    return json.loads((folder / "reports/provenance/train.json").read_text())
