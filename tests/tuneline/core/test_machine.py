"""Cores and accelerators of this machine, and of machines with the files of others."""

import contextlib
import os
import subprocess
import sys
import uuid
from pathlib import Path

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


@pytest.mark.parametrize("name", ["core_cpus_list", "thread_siblings_list"])
def test_two_hardware_threads_are_one_core(tmp_path, monkeypatch, name):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    for cpu, siblings in {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}.items():
        (tmp_path / f"cpu{cpu}/topology").mkdir(parents=True)
        (tmp_path / f"cpu{cpu}/topology/{name}").write_text(siblings + "\n")
    assert physical_cores(tmp_path) == 2


def test_cores_without_a_description_of_their_hardware_count_each(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 5, 7}, raising=False)
    assert physical_cores(tmp_path) == 3


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


def write_group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("cpu_", "cpu.")).write_text(content + "\n")


def membership(tmp_path: Path, *lines: str) -> Path:
    (tmp_path / "cgroup").write_text("\n".join(lines))
    return tmp_path / "cgroup"


@pytest.mark.parametrize(
    ("content", "quota"),
    [("150000 100000", 1.5), ("max 100000", None), ("", None), ("a b", None), ("100000 0", None)],
)
def test_cpu_quota_reads_the_limit_of_a_container(tmp_path, content, quota):
    """Version 2: the container sees its own group as the root."""
    write_group(tmp_path, cpu_max=content)
    assert cpu_quota(tmp_path, membership(tmp_path, "0::/")) == quota


def test_cpu_quota_is_the_lowest_of_a_group_and_those_around_it(tmp_path):
    write_group(tmp_path / "system.slice", cpu_max="400000 100000")
    write_group(tmp_path / "system.slice/docker.scope/inner", cpu_max="max 100000")
    assert cpu_quota(tmp_path, membership(tmp_path, "0::/system.slice/docker.scope/inner")) == 4.0


@pytest.mark.parametrize(("quota", "expected"), [("250000", 2.5), ("-1", None)])
@pytest.mark.parametrize("path", ["/", "/docker/0f3c", "/absent"])
def test_cpu_quota_of_version_1(tmp_path, quota, expected, path):
    """The container may see the path on the host, which does not exist in it, while its own group is mounted
    as the root."""
    (tmp_path / "cpu,cpuacct/docker/0f3c").mkdir(parents=True)
    write_group(tmp_path / "cpu,cpuacct", cpu_cfs_quota_us=quota, cpu_cfs_period_us="100000")
    lines = ("12:cpuset:/other", f"4:cpu,cpuacct:{path}", "0::/")
    assert cpu_quota(tmp_path, membership(tmp_path, *lines)) == expected


def test_cpu_quota_is_unlimited_without_control_groups(tmp_path):
    assert cpu_quota(tmp_path, tmp_path / "absent") is None


@pytest.fixture
def limited_group():
    """A control group of this system with a quota of 1.5 cores: the files that a process joins and that hold
    its limit."""
    name = f"tuneline-test-{uuid.uuid4().hex}"
    groups = {Path("/sys/fs/cgroup", name): {"cpu.max": "150000 100000"}}
    for folder in ("cpu", "cpu,cpuacct"):
        groups[Path("/sys/fs/cgroup", folder, name)] = {
            "cpu.cfs_period_us": "100000",
            "cpu.cfs_quota_us": "150000",
        }
    for group, files in groups.items():
        with contextlib.suppress(OSError):
            if (group.parent / "cgroup.procs").exists():
                group.mkdir()
                try:
                    for file, content in files.items():
                        (group / file).write_text(content)
                    yield group
                finally:
                    group.rmdir()
                return
    pytest.skip("this system does not let the tests create a control group with a limit")


def test_quota_of_a_real_control_group_limits_the_threads(limited_group):
    join = f"open('{limited_group}/cgroup.procs', 'w').write('0')"
    assert printed(f"{join}; {PRINT_CORES}") == ["1", "1.5"]


def test_device_file_leaves_the_decision_to_torch(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert why_no_accelerator("2.1", tmp_path) == f"{tmp_path} has no file of a GPU driver"
    (tmp_path / "nvidiactl").touch()  # a driver, no GPU
    assert why_no_accelerator("2.1", tmp_path) is not None
    (tmp_path / "nvidia0").touch()
    assert why_no_accelerator("2.1", tmp_path) is None


def test_graphics_card_counts_only_with_torch_for_it(tmp_path, monkeypatch):
    """Any desktop has the file, and CUDA builds of torch do not use it."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (tmp_path / "dri").mkdir()
    (tmp_path / "dri/renderD128").touch()
    assert why_no_accelerator("2.1", tmp_path) is not None
    assert why_no_accelerator("2.1+xpu", tmp_path) is None


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
