"""Training on a GPU, as DVC starts it: `make test-gpu`. Skipped where there is none."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.conftest import ROOT
from tests.tuneline.training import launcher, tiny_task
from tests.tuneline.training.conftest import fill
from tuneline.core.stage.launch import choose_processes, find_devices
from tuneline.training.devices import create_accelerator

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA or ROCm GPU"),
]
two_gpus = pytest.mark.skipif(
    torch.cuda.device_count() < 2, reason=f"needs 2 GPUs; there are {torch.cuda.device_count()}"
)


@pytest.fixture
def project(tmp_path, data):
    return fill(tmp_path, data)


def start(project: Path, **train) -> subprocess.Popen[str]:
    """Start the stage with the GPUs that this machine shows."""
    tiny_task.write_params(project, tiny_task.WITHOUT_DROPOUT, **train)
    env = {name: value for name, value in os.environ.items() if name != "ACCELERATE_USE_CPU"}
    command = [sys.executable, "-m", "tuneline.training.launch", "stages.train"]
    output = (project / "output-0.txt").open("a")
    return subprocess.Popen(
        command, cwd=project, env={**env, "PYTHONPATH": str(ROOT)}, stdout=output, stderr=output, text=True
    )


def trained(project: Path, **train) -> dict[str, object]:
    """Train and return the devices that the provenance names."""
    assert start(project, **train).wait(launcher.TIMEOUT) == 0, launcher.output(project)
    return json.loads((project / "reports/provenance/train.json").read_text())["devices"]


def losses(project: Path) -> list[float]:
    return [row[1] for row in launcher.curve(project)]


def cpu_losses(folder: Path, data: Path) -> list[float]:
    """Return the losses of the same run on the CPU in float32."""
    project = fill(folder, data)
    trained(project, launch="cpu")
    return losses(project)


def test_auto_chooses_all_gpus_and_the_precision_that_they_support(project, monkeypatch):
    monkeypatch.delenv("ACCELERATE_USE_CPU")
    choice = choose_processes(find_devices(), global_batch_size=8)
    assert choice.device == "cuda"
    assert choice.precision == ("bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16")
    used = trained(project, launch="auto", global_batch_size=8)
    assert (used["type"], used["precision"], used["processes"]) == (
        "cuda",
        choice.precision,
        choice.processes,
    )
    assert f"auto chooses {choice}" in launcher.output(project)


def test_bf16_trains_close_to_the_cpu(project, tmp_path_factory, data):
    if not torch.cuda.is_bf16_supported(including_emulation=False):
        pytest.skip(f"{torch.cuda.get_device_name()} does not compute in bf16")
    assert trained(project, launch="auto", mixed_precision="bf16")["precision"] == "bf16"
    assert losses(project) == pytest.approx(cpu_losses(tmp_path_factory.mktemp("cpu"), data), abs=0.1)


def test_float32_is_computed_in_float32(project, accelerated, monkeypatch):
    """TF32 has 10 bits of the mantissa."""
    monkeypatch.delenv("ACCELERATE_USE_CPU")
    accelerator = create_accelerator(tiny_task.params(mixed_precision="no"))
    assert accelerator.device.type == "cuda"
    assert torch.get_float32_matmul_precision() == "highest"


def test_run_on_a_gpu_resumes_after_a_signal(project):
    settings = {"launch": "auto", "epochs": 60, "checkpoint_every_steps": 5}
    process = start(project, **settings)
    launcher.wait_for(project / "checkpoints", "step-00000010")
    process.send_signal(signal.SIGTERM)
    assert process.wait(launcher.TIMEOUT) == 75, launcher.output(project)
    trained(project, **settings)
    assert "resumes from step" in launcher.output(project)
    assert len(losses(project)) == launcher.metrics(project)["steps"]


@two_gpus
def test_two_gpus_train_by_ddp_close_to_one(project, tmp_path_factory, data):
    (project / "conf/accelerate/two.yaml").write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision:"
        " 'no'\nnum_machines: 1\nnum_processes: 2\n"
    )
    assert trained(project, launch="two")["distribution"] == "MULTI_GPU"
    assert losses(project) == pytest.approx(cpu_losses(tmp_path_factory.mktemp("cpu"), data), abs=1e-3)
