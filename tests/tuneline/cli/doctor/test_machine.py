import json

import pytest

from tuneline.cli.doctor import machine

GB = 2**30


@pytest.mark.parametrize(
    ("seen", "quota", "threads", "level"),
    [
        (4, None, None, "ok"),
        (16, 2.0, None, "warning"),
        (16, 2.0, "2", "ok"),
        (2, 2.0, None, "ok"),
        (2, None, "8", "warning"),
        (2, None, "2", "ok"),
    ],
)
def test_more_threads_than_cores_are_a_warning(seen, quota, threads, level):
    assert machine.cores(seen, quota, threads).level == level


@pytest.mark.parametrize(("content", "quota"), [("200000 100000\n", 2.0), ("max 100000\n", None), ("", None), (None, None)])
def test_the_quota_of_a_container_is_read(tmp_path, content, quota):
    if content is not None:
        (tmp_path / "cpu.max").write_text(content)
    assert machine.cpu_quota(tmp_path) == quota


def test_the_memory_of_a_container_is_read(tmp_path):
    assert machine.memory_left(tmp_path) == float("inf")
    (tmp_path / "memory.max").write_text("3000\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert machine.memory_left(tmp_path) == 2000
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.memory_left(tmp_path) == float("inf")


@pytest.mark.parametrize(("free", "level"), [(8 * GB, "ok"), (GB, "warning")])
def test_little_memory_is_a_warning(free, level):
    assert machine.memory(free).level == level


@pytest.mark.parametrize(("free", "level"), [(50 * GB, "ok"), (2 * GB, "warning"), (GB // 10, "error")])
def test_little_disk_is_a_warning_and_none_an_error(tmp_path, free, level):
    assert machine.disk(tmp_path, free).level == level


CPU, GPU = {"use_cpu": True}, {"use_cpu": False}


@pytest.mark.parametrize(
    ("driver", "torch", "launching", "level"),
    [
        (False, "2.1+cpu", CPU, "ok"),
        (False, "2.1", {}, "ok"),
        (False, "2.1", GPU, "error"),
        (True, "2.1", GPU, "ok"),
        (True, "2.1+cpu", GPU, "error"),
        (True, "2.1+cpu", CPU, "warning"),
        (True, "2.1", CPU, "warning"),
    ],
)
def test_card_build_and_launch_go_together(driver, torch, launching, level):
    assert machine.accelerator(driver, torch, launching).level == level


def test_the_launch_configuration_is_the_one_that_the_parameters_name(root, tmp_path):
    assert machine.launch(root)["use_cpu"] is True
    assert machine.launch(tmp_path) == {}


def int8_findings(folder, model):
    (folder / "export.json").write_text(json.dumps({"models": {"fp32": {"file": "model.onnx"}, **model}}))
    return [(found.level, found.what) for found in machine.int8(folder)]


def test_weights_in_8_bits_are_a_warning_on_every_processor(tmp_path):
    """An export of before the key was written has 8 bits, too."""
    for bits in ({"weight_bits": 8}, {}):
        ((level, what),) = int8_findings(tmp_path, {"int8": {"file": "model.int8.onnx", **bits}})
        assert level == "warning"
        assert "model.int8.onnx has 8-bit weights" in what


def test_weights_in_7_bits_are_fine(tmp_path):
    assert [level for level, _ in int8_findings(tmp_path, {"int8": {"file": "model.int8.onnx", "weight_bits": 7}})] == ["ok"]


def test_without_an_int8_model_nothing_is_said_about_it(tmp_path):
    assert not list(machine.int8(tmp_path))
    assert int8_findings(tmp_path, {}) == []
