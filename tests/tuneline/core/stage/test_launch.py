"""The refusal of a launch without its devices."""

import pytest

from tests.conftest import ROOT
from tuneline.core.runtime.errors import ParamsError
from tuneline.core.stage.launch import check_launch


@pytest.fixture
def without_gpu(monkeypatch):
    """The launch configurations of the product, on a machine whose GPUs are hidden."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("ACCELERATE_USE_CPU", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.mark.parametrize("name", ["fsdp"])
def test_launch_for_gpus_is_refused_without_one(name, without_gpu):
    with pytest.raises(ParamsError, match=rf"{name}\.yaml needs a GPU"):
        check_launch(name)


@pytest.mark.parametrize("name", ["cpu"])
def test_launch_that_runs_everywhere_is_accepted_without_a_gpu(name, without_gpu):
    check_launch(name)


def test_accelerate_use_cpu_lets_a_launch_for_gpus_run_on_cpus(monkeypatch, without_gpu):
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    check_launch("fsdp")
