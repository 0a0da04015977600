"""Cores and accelerators of this machine, and of machines with the files of others."""

import pytest

from tuneline.core.stage import machine
from tuneline.core.stage.machine import available_cores, cpu_quota, threads


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


@pytest.mark.parametrize(
    ("content", "quota"), [("150000 100000", 1.5), ("max 100000", None), ("", None), ("a b", None)]
)
def test_cpu_quota_reads_the_limit_of_a_container(tmp_path, content, quota):
    """Version 2 of control groups: the container sees its own group as the root."""
    (tmp_path / "cpu.max").write_text(content + "\n")
    assert cpu_quota(tmp_path / "cpu.max") == quota
    assert cpu_quota(tmp_path / "absent") is None
