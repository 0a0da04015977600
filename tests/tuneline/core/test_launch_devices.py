"""The choice of ``train.launch: auto``, for machines that cannot be had here."""

import pytest

from tuneline.core import machine
from tuneline.core.launch import DeviceChoice, Devices, choose_processes, find_devices

MACHINES = {
    "no accelerator": (Devices(), DeviceChoice("cpu", 1, "no")),
    "one Ampere": (Devices("cuda", 1, "bf16"), DeviceChoice("cuda", 1, "bf16")),
    "one Turing": (Devices("cuda", 1, "fp16"), DeviceChoice("cuda", 1, "fp16")),
    "four Hopper": (Devices("cuda", 4, "bf16"), DeviceChoice("cuda", 4, "bf16")),
    "Apple": (Devices("mps"), DeviceChoice("mps", 1, "no")),
}


@pytest.mark.parametrize(("devices", "expected"), MACHINES.values(), ids=MACHINES)
def test_choice_uses_all_accelerators_in_the_fastest_safe_precision(devices, expected):
    assert choose_processes(devices, global_batch_size=32) == expected


@pytest.mark.parametrize(("devices", "_"), MACHINES.values(), ids=MACHINES)
def test_mixed_precision_of_the_user_wins(devices, _):
    assert choose_processes(devices, 32, "no").precision == "no"
    assert choose_processes(devices, 32, "bf16").precision == "bf16"


@pytest.mark.parametrize(
    ("flags", "precision"),
    [("avx512f avx512_bf16", "bf16"), ("amx_tile amx_bf16", "bf16"), ("avx512f", "no")],
)
def test_auto_precision_is_bf16_on_a_cpu_that_computes_it(flags, precision, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "PROCESSORS", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text(f"flags\t\t: fpu {flags} rdpid\n")
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    assert choose_processes(find_devices(), 32, "auto").precision == precision
    assert choose_processes(find_devices(), 32).precision == "no", "float32 unless it is asked for"


@pytest.mark.parametrize(("devices", "expected"), MACHINES.values(), ids=MACHINES)
def test_auto_precision_on_other_devices_is_the_default(devices, expected):
    assert choose_processes(devices, 32, "auto") == expected


def test_choice_has_no_more_processes_than_examples_in_a_batch():
    assert choose_processes(Devices("cuda", 8, "bf16"), global_batch_size=4).processes == 4
    assert choose_processes(Devices("cuda", 8, "bf16"), global_batch_size=12).processes == 8


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        (DeviceChoice("cpu", 1, "no"), "the CPU, float32"),
        (DeviceChoice("mps", 1, "no"), "Apple's GPU (MPS), float32"),
        (DeviceChoice("cuda", 1, "fp16"), "1 GPU, fp16"),
        (DeviceChoice("cuda", 2, "bf16"), "2 GPUs (DDP), bf16"),
    ],
)
def test_choice_is_printed_in_one_line(choice, text):
    assert str(choice) == text


def test_accelerate_use_cpu_chooses_the_cpu(monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    assert find_devices().why_cpu == "ACCELERATE_USE_CPU is set"
    assert find_devices().type == "cpu"
