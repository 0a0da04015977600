import pytest

from tests.params import params
from tests.records import export_record
from tuneline.cli import doctor as machine
from tuneline.core.launch import Devices
from tuneline.core.written_records import write_record

GB = 2**30


@pytest.mark.parametrize(
    ("cores", "quota", "threads", "level"),
    [
        (4, None, None, "ok"),
        (2, 2.5, None, "ok"),
        (2, 2.5, "2", "ok"),
        (2, 2.5, "4", "warning"),
        (2, None, "8", "warning"),
        (2, None, "2", "ok"),
    ],
)
def test_more_threads_than_cores_are_a_warning(cores, quota, threads, level):
    assert machine.check_cores(cores, quota, threads).level == level


def test_cores_name_the_limit_of_the_container():
    assert (
        machine.check_cores(2, 2.5, None).message
        == "2 cores (the container may use 2.5 at a time), 2 threads"
    )


def test_available_memory_reads_the_container_limit(tmp_path):
    assert machine.available_in_container(tmp_path) == float("inf")
    (tmp_path / "memory.max").write_text("3000\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert machine.available_in_container(tmp_path) == 2000
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.available_in_container(tmp_path) == float("inf")


@pytest.mark.parametrize(("free", "level"), [(8 * GB, "ok"), (GB, "warning")])
def test_little_free_memory_is_a_warning(free, level):
    assert machine.check_memory(free).level == level


@pytest.mark.parametrize(("free", "level"), [(50 * GB, "ok"), (2 * GB, "warning"), (GB // 10, "error")])
def test_little_free_disk_is_a_warning_and_almost_none_an_error(tmp_path, free, level):
    assert machine.check_disk(tmp_path, free).level == level


@pytest.mark.parametrize("free", [2 * GB, GB // 10])
def test_disk_hint_keeps_the_versions_that_branches_and_tags_use(tmp_path, free):
    """`dvc gc --workspace` would delete the released models that only tags name."""
    hint = machine.check_disk(tmp_path, free).hint
    assert "dvc gc --all-tags --all-branches" in hint
    assert "Never only --workspace" in hint


def launch_result(root, **changes):
    return machine.check_launch_of_machine(root, params(**changes).train)


def test_doctor_says_what_auto_chooses(checkout, monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    result = launch_result(checkout)
    assert (result.level, result.message) == (
        "ok",
        "train.launch auto chooses the CPU, float32 (ACCELERATE_USE_CPU is set)",
    )


def test_auto_on_a_gpu_machine_with_torch_for_the_cpu_is_a_warning(monkeypatch):
    devices = Devices(why_cpu="torch 2.1+cpu is built for the CPU")
    assert machine.check_choice(devices, params().train, "2.1+cpu", driver=True).level == "warning"
    assert machine.check_choice(devices, params().train, "2.1+cpu", driver=False).level == "ok"
    assert machine.check_choice(
        Devices("cuda", 2, (8, 0)), params().train, "2.1", driver=True
    ).message.endswith("2 GPUs (DDP), bf16")


def test_launch_for_a_gpu_without_one_is_an_error(checkout, monkeypatch):
    monkeypatch.delenv("ACCELERATE_USE_CPU")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    result = launch_result(checkout, train={"launch": "gpu"})
    assert result.level == "error"
    assert "gpu.yaml needs a GPU, and there is none" in result.message


def test_launch_for_the_cpu_on_a_machine_with_a_gpu_is_a_warning(checkout, monkeypatch):
    for why, level in ((None, "warning"), ("/dev has no file of a GPU driver", "ok")):
        monkeypatch.setattr("tuneline.core.machine.why_no_accelerator", lambda why=why: why)
        assert launch_result(checkout, train={"launch": "cpu"}).level == level
    monkeypatch.delenv("ACCELERATE_USE_CPU")
    monkeypatch.setattr("tuneline.core.launch.why_no_accelerator", lambda: None)
    assert launch_result(checkout, train={"launch": "gpu"}).level == "ok"


def test_broken_launch_configuration_is_an_error(checkout):
    (checkout / "conf/accelerate/cpu.yaml").write_text("[]")
    assert launch_result(checkout, train={"launch": "cpu"}).level == "error"


def int8_results(folder, model):
    write_record(folder / "export.json", export_record({"fp32": {}, **model}))
    return [(result.level, result.message) for result in machine.check_int8(folder)]


def test_int8_model_with_8_bit_weights_is_a_warning_on_every_processor(tmp_path):
    """Exports without the key are older than it and have 8 bits, too."""
    for bits in ({"weight_bits": 8}, {}):
        ((level, message),) = int8_results(tmp_path, {"int8": {"file": "model.int8.onnx", **bits}})
        assert level == "warning"
        assert "model.int8.onnx has 8-bit weights" in message


def test_int8_model_with_7_bit_weights_is_ok(tmp_path):
    assert [
        level for level, _ in int8_results(tmp_path, {"int8": {"file": "model.int8.onnx", "weight_bits": 7}})
    ] == ["ok"]


def test_int8_check_yields_nothing_without_an_int8_model(tmp_path):
    assert not list(machine.check_int8(tmp_path))
    assert int8_results(tmp_path, {}) == []


def test_installed_packages_match_the_lock(root):
    """The tests run in what `make setup` installs, so doctor must report it as ok."""
    assert machine.check_packages(root / "requirements.txt", machine.installed_packages()).level == "ok"


@pytest.mark.parametrize(
    ("version", "level"), [((3, 10), "error"), ((3, 11), "ok"), ((3, 13), "ok"), ((3, 14), "error")]
)
def test_unsupported_python_version_is_an_error(version, level):
    assert machine.check_python(version).level == level


def write_lock(tmp_path, text):
    path = tmp_path / "requirements.txt"
    path.write_text(text)
    return path


def test_wrong_and_missing_packages_are_named(tmp_path):
    result = machine.check_packages(
        write_lock(tmp_path, "numpy==2.0 \\\n    --hash=sha256:00\n    # via x\ntorch==2.1\nabsent==1\n"),
        {"numpy": "2.0", "torch": "2.2+cpu"},
    )
    assert result.level == "error"
    assert (
        result.message
        == "not as pinned in requirements.txt: torch 2.2+cpu (pinned: 2.1), absent missing (pinned: 1)"
    )


def test_cpu_build_of_a_package_counts_as_the_same_version(tmp_path):
    assert machine.check_packages(write_lock(tmp_path, "torch==2.1\n"), {"torch": "2.1+cpu"}).level == "ok"


def test_pin_for_another_python_version_is_ignored(tmp_path):
    assert (
        machine.check_packages(write_lock(tmp_path, "absent==1 ; python_full_version < '3.0'\n"), {}).level
        == "ok"
    )


def test_package_names_are_compared_in_canonical_form(tmp_path):
    assert (
        machine.check_packages(write_lock(tmp_path, "ruamel-yaml==1\n"), {"ruamel-yaml": "1"}).level == "ok"
    )


def test_long_list_of_wrong_packages_is_shortened(tmp_path):
    result = machine.check_packages(write_lock(tmp_path, "".join(f"p{n}==1\n" for n in range(50))), {})
    assert result.message.endswith("and 44 more")


def test_programs_of_another_environment_on_path_are_a_warning(tmp_path):
    """`dvc repro` starts `python -m stages.NAME` by PATH: without .venv in it, another Python would run the
    stages."""
    (tmp_path / "bin").mkdir()
    own = str(tmp_path / "bin/python")
    assert machine.check_programs(tmp_path, own, own, own).level == "ok"
    result = machine.check_programs(tmp_path, "/usr/bin/python", own, None)
    assert result.level == "warning"
    assert "/usr/bin/python, none" in result.message
