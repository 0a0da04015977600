"""Cores and accelerators of this machine, and of machines with the files of others."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tuneline.core import machine
from tuneline.core.machine import available_cores, cpu_quota, physical_cores, threads, why_no_accelerator


@pytest.fixture(autouse=True)
def _no_limit_by_environment(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def test_threads_are_the_available_cores_divided_by_the_processes(monkeypatch):
    monkeypatch.setattr(machine, "physical_cores", lambda: 12)
    monkeypatch.setattr(machine, "cpu_quota", lambda: None)
    assert [threads(processes) for processes in (1, 4, 5, 13)] == [12, 3, 2, 1]


def test_omp_num_threads_determines_the_threads(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads() == threads(processes=2) == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    assert threads() == available_cores()


@pytest.mark.parametrize(
    ("cores", "quota", "available"), [(8, None, 8), (8, 2.9, 2), (8, 0.5, 1), (2, 4.0, 2)]
)
def test_quota_of_the_container_limits_the_cores(monkeypatch, cores, quota, available):
    monkeypatch.setattr(machine, "physical_cores", lambda: cores)
    monkeypatch.setattr(machine, "cpu_quota", lambda: quota)
    assert available_cores() == available


def test_two_hardware_threads_are_one_core(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 7}, raising=False)
    monkeypatch.setattr(machine, "CPUS", tmp_path)
    for cpu, siblings in {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}.items():
        (tmp_path / f"cpu{cpu}/topology").mkdir(parents=True)
        (tmp_path / f"cpu{cpu}/topology/core_cpus_list").write_text(siblings + "\n")
    assert physical_cores() == 3, "a core without a description counts"


PRINT_CORES = (
    "from tuneline.core.machine import available_cores, cpu_quota; print(available_cores(), cpu_quota())"
)


def printed(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs an affinity mask (Linux)")
def test_affinity_mask_limits_the_cores():
    first = min(os.sched_getaffinity(0))
    assert printed(f"import os; os.sched_setaffinity(0, {{{first}}}); {PRINT_CORES}")[0] == "1"


@pytest.mark.parametrize(
    ("content", "quota"), [("150000 100000", 1.5), ("max 100000", None), ("", None), ("a b", None)]
)
def test_cpu_quota_reads_the_limit_of_a_container(tmp_path, content, quota):
    """Version 2 of control groups: the container sees its own group as the root."""
    (tmp_path / "cpu.max").write_text(content + "\n")
    assert cpu_quota(tmp_path / "cpu.max") == quota
    assert cpu_quota(tmp_path / "absent") is None


def test_device_file_leaves_the_decision_to_torch(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert why_no_accelerator("2.1", tmp_path) == f"{tmp_path} has no file of a GPU driver"
    (tmp_path / "nvidiactl").touch()  # a driver, no GPU
    assert why_no_accelerator("2.1", tmp_path) is not None
    (tmp_path / "nvidia0").touch()
    assert why_no_accelerator("2.1", tmp_path) is None


@pytest.mark.parametrize("value", ["", "-1"])
def test_hidden_gpus_do_not_count(tmp_path, monkeypatch, value):
    (tmp_path / "nvidia0").touch()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert why_no_accelerator("2.1", tmp_path) == "CUDA_VISIBLE_DEVICES hides all GPUs"


def test_torch_for_the_cpu_finds_no_gpu(tmp_path):
    (tmp_path / "nvidia0").touch()
    assert why_no_accelerator("2.1+cpu", tmp_path) == "torch 2.1+cpu is built for the CPU"


def test_macs_leave_the_decision_to_torch(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert why_no_accelerator("2.1", tmp_path) is None
