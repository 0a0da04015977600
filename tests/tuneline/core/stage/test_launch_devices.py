"""The choice of ``train.launch: auto``, for machines that cannot be had here."""

import pytest

from tuneline.core.stage import machine
from tuneline.core.stage.launch import DeviceChoice, choose_processes, find_devices

MACHINES = {
    "no accelerator": (DeviceChoice("cpu", 1, "no"), DeviceChoice("cpu", 1, "no")),
    "one Ampere": (DeviceChoice("cuda", 1, "bf16"), DeviceChoice("cuda", 1, "bf16")),
    "one Turing": (DeviceChoice("cuda", 1, "fp16"), DeviceChoice("cuda", 1, "fp16")),
    "four Hopper": (DeviceChoice("cuda", 4, "bf16"), DeviceChoice("cuda", 4, "bf16")),
}


@pytest.mark.parametrize(("devices", "expected"), MACHINES.values(), ids=MACHINES)
def test_choice_uses_all_accelerators_in_the_fastest_safe_precision(devices, expected):
    assert choose_processes(devices, global_batch_size=32) == expected


@pytest.mark.parametrize(
    ("flags", "precision"),
    [("avx512_bf16 amx_bf16", "bf16"), ("avx512f avx512_bf16", "no")],
)
def test_auto_precision_is_bf16_on_a_cpu_that_computes_it(flags, precision, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "PROCESSORS", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text(f"flags\t\t: fpu {flags} rdpid\n")
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    assert choose_processes(find_devices(), 32, "auto").precision == precision
    assert choose_processes(find_devices(), 32).precision == "no", "float32 unless it is asked for"


def test_choice_has_no_more_processes_than_examples_in_a_batch():
    assert choose_processes(DeviceChoice("cuda", 8, "bf16"), global_batch_size=4).processes == 4
    assert choose_processes(DeviceChoice("cuda", 8, "bf16"), global_batch_size=12).processes == 8
