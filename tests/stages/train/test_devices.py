import pytest
import torch
from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env

from stages.train.accelerate_launch import parse_launch, validate
from stages.train.devices import (
    check_devices,
    check_precision,
    clip_gradients,
    create_accelerator,
    describe_devices,
    devices_used,
    launch_settings,
    transformer_layer_class,
)
from tests.conftest import ROOT
from tests.stages.train import tiny_task
from tuneline.core.training_devices import DevicesUsed, TrainingSegment
from tuneline.runtime.errors import ParamsError, StageError


@pytest.fixture
def project_alone(tmp_path, monkeypatch, accelerated):
    monkeypatch.chdir(tmp_path)


def test_fp16_on_a_cpu_is_refused(project_alone):
    """accelerate would accept it and compute in float32."""
    with pytest.raises(ParamsError, match="fp16 needs a GPU"):
        create_accelerator(tiny_task.params(mixed_precision="fp16"))


def test_bf16_on_a_gpu_without_bf16_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: including_emulation)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    with pytest.raises(ParamsError, match=r"Tesla T4 .*bf16"):
        check_precision("bf16", torch.device("cuda"))


def test_fp8_is_refused(project_alone):
    with pytest.raises(ParamsError, match="'fp8' is not supported"):
        check_precision("fp8", torch.device("cpu"))


@pytest.mark.parametrize("parameter", [None, "auto"])
def test_launcher_sets_the_precision_by_default(parameter, project_alone, monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    accelerator = create_accelerator(tiny_task.params(mixed_precision=parameter))
    assert accelerator.mixed_precision == "bf16"
    assert "bf16, 1 process" in describe_devices(accelerator)


def losses(outcome):
    return [row.loss for row in outcome.state.progress.logged]


def test_bf16_trains_close_to_float32_and_keeps_float32_weights(trained):
    plain, half = (
        trained(tiny_task.params(tiny_task.WITHOUT_DROPOUT, mixed_precision=precision))
        for precision in ("no", "bf16")
    )
    assert losses(half) == pytest.approx(losses(plain), abs=0.1)
    assert losses(half) != losses(plain)
    assert {weight.dtype for weight in half.weights.values()} == {torch.float32}


def test_gradient_checkpointing_gives_the_same_losses(trained):
    """Recomputed activations use the same dropout masks."""
    assert losses(trained(tiny_task.params(gradient_checkpointing=True))) == pytest.approx(
        losses(trained(tiny_task.params())), abs=1e-6
    )


@pytest.mark.slow  # the compiler alone takes 15 seconds
def test_compiled_model_has_the_same_losses_and_plain_weights(trained):
    """With a backend that traces but generates no code; inductor takes half a minute to compile on a CPU."""
    plain, compiled = (
        trained(tiny_task.params(tiny_task.WITHOUT_DROPOUT)),
        trained(tiny_task.params(tiny_task.WITHOUT_DROPOUT, compile="aot_eager")),
    )
    assert losses(compiled) == pytest.approx(losses(plain), abs=1e-5)
    assert compiled.weights.keys() == plain.weights.keys()


def test_unknown_compile_backend_error_lists_the_available_ones(project, trained):
    with pytest.raises(ParamsError, match=r"train\.compile: .*inductr"):
        trained(tiny_task.params(compile="inductr"))


def test_fsdp_wraps_the_transformer_layers_of_the_model():
    from stages.train.model import build_model
    from tuneline.tasks import task_with_names

    model, _ = build_model(tiny_task.params().model, task_with_names(tiny_task.NAMES), tiny_task.tokenizer())
    assert transformer_layer_class(model) == "BertLayer"


@pytest.fixture
def two_processes(accelerated, monkeypatch):
    """Return an accelerator on the CPU that counts two processes."""
    monkeypatch.chdir(ROOT / "tests")
    accelerator = create_accelerator(tiny_task.params())
    monkeypatch.setattr(type(accelerator), "num_processes", 2)
    return accelerator


def test_process_count_that_differs_from_the_launch_configuration_is_an_error(two_processes):
    check_devices("multi-gpu", two_processes)
    check_devices("auto", two_processes)
    with pytest.raises(StageError, match=r"cpu\.yaml requests 1"):
        check_devices("cpu", two_processes)
    with pytest.raises(StageError, match=r"multi-node\.yaml .* 16"):
        check_devices("multi-node", two_processes)


def test_launch_for_a_gpu_that_trains_on_the_cpu_is_an_error(project_alone, monkeypatch):
    """The driver may be there, and torch built for the CPU or for another driver."""
    accelerator = create_accelerator(tiny_task.params())
    monkeypatch.chdir(ROOT / "tests")
    monkeypatch.delenv("ACCELERATE_USE_CPU")
    with pytest.raises(StageError, match=r"accelerate/gpu\.yaml"):
        check_devices("gpu", accelerator)


def test_devices_used_are_those_of_the_training(project_alone):
    create_accelerator(tiny_task.params(mixed_precision="bf16"))
    devices = DevicesUsed(type="cpu", precision="bf16", processes=1, distribution="NO")
    segments = [
        TrainingSegment(step=step, device="cpu", processes=2 - step // 9, micro_batch_size=4, threads=1)
        for step in (0, 9)
    ]
    assert devices_used(segments[:1]) == devices
    assert "segments" not in devices.model_dump()
    assert (
        str(devices_used(segments))
        == "cpu, bf16; the bytes are not those of one kind of machine: from step 0 2 processes with 1 thread"
        " (cpu, micro_batch_size 4); from step 9 1 process with 1 thread (cpu, micro_batch_size 4)"
    )


@pytest.mark.parametrize(("one", "other"), [("fsdp", "fsdp-offload"), ("zero2-offload", "zero3-offload")])
def test_settings_of_two_sharded_launches_differ(one, other, monkeypatch):
    assert settings_of(one, monkeypatch) != settings_of(other, monkeypatch)
    assert settings_of(one, monkeypatch) == settings_of(one, monkeypatch)


def settings_of(name, monkeypatch):
    """Return the settings of a process that accelerate launches."""
    with monkeypatch.context() as patch:
        patch.chdir(ROOT / "tests")
        patch.delenv("ACCELERATE_USE_CPU", raising=False)
        arguments = validate(name, parse_launch(name, []), None)
        arguments.deepspeed_fields_from_accelerate_config = ""  # the launcher sets it
        launched = (
            prepare_deepspeed_cmd_env(arguments)[1]
            if arguments.use_deepspeed
            else prepare_multi_gpu_env(arguments)
        )
        for key, value in launched.items():
            patch.setenv(key, value)
        return launch_settings()


def test_settings_of_a_launch_include_the_content_of_the_file_of_deepspeed(tmp_path, monkeypatch):
    file = tmp_path / "zero.json"
    monkeypatch.setenv("ACCELERATE_DEEPSPEED_CONFIG_FILE", str(file))
    file.write_text("{}")
    before = launch_settings()
    file.write_text('{"zero_optimization": {"stage": 3}}')
    assert launch_settings() != before


@pytest.mark.parametrize("max_norm", [0.5, 50.0, float("inf")])
@pytest.mark.parametrize("fused", [True, False])
def test_gradients_are_clipped_as_torch_does_it(project_alone, fused, max_norm):
    """With an epsilon of 1, a step of Adam depends on the size of the gradients."""
    ours, torchs = (
        [torch.nn.Parameter(torch.arange(12.0).view(3, 4)), torch.nn.Parameter(torch.ones(2))]
        for _ in range(2)
    )
    accelerator = create_accelerator(tiny_task.params())
    for weight in (*ours, *torchs):
        weight.grad = torch.full_like(weight, 2.0)
    optimizer = accelerator.prepare(torch.optim.AdamW(ours, lr=0.1, eps=1.0, fused=fused))
    norm = clip_gradients(accelerator, torch.nn.ParameterList(ours), optimizer, max_norm)
    assert (
        norm
        == pytest.approx(float(torch.nn.utils.clip_grad_norm_(torchs, max_norm)))
        == pytest.approx(14**0.5 * 2)
    )
    optimizer.step()
    torch.optim.AdamW(torchs, lr=0.1, eps=1.0).step()
    for weight, expected in zip(ours, torchs, strict=True):
        torch.testing.assert_close(weight, expected)
