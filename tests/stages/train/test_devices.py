import pytest
import torch

from stages.train.devices import check_precision, create_accelerator, describe_devices, transformer_layer_class
from tests.stages.train import made
from tuneline.errors import ParamsError


@pytest.fixture
def project_alone(tmp_path, monkeypatch, accelerated):
    monkeypatch.chdir(tmp_path)


def test_fp16_on_a_cpu_is_refused(project_alone):
    """accelerate would take it and compute in float32."""
    with pytest.raises(ParamsError, match="fp16 needs a GPU; this run is on the CPU"):
        create_accelerator(made.params(mixed_precision="fp16"))


def test_bf16_on_a_gpu_without_bf16_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: including_emulation)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    with pytest.raises(ParamsError, match="Tesla T4 does not support bf16"):
        check_precision("bf16", torch.device("cuda"))


def test_fp8_is_refused(project_alone):
    with pytest.raises(ParamsError, match="'fp8' is not supported"):
        check_precision("fp8", torch.device("cpu"))


def test_the_launch_configuration_sets_the_precision_unless_the_parameters_do(project_alone, monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    accelerator = create_accelerator(made.params())
    assert accelerator.mixed_precision == "bf16"
    assert "bf16, 1 process" in describe_devices(accelerator)


def losses(outcome):
    return [row.loss for row in outcome.state.progress.logged]


def test_bf16_trains_close_to_float32_and_keeps_float32_weights(trained):
    plain, half = (trained(made.params(made.WITHOUT_DROPOUT, mixed_precision=precision)) for precision in ("no", "bf16"))
    assert losses(half) == pytest.approx(losses(plain), abs=0.1)
    assert losses(half) != losses(plain)
    assert {weight.dtype for weight in half.weights.values()} == {torch.float32}


def test_gradient_checkpointing_changes_memory_only(trained):
    """Dropout included: what is computed again draws the same masks again."""
    assert losses(trained(made.params(gradient_checkpointing=True))) == pytest.approx(losses(trained(made.params())), abs=1e-6)


def test_a_compiled_model_trains_the_same_and_is_saved_plain(trained):
    """With a backend that traces but generates no code; inductor takes half a minute to compile on a CPU."""
    plain, compiled = trained(made.params(made.WITHOUT_DROPOUT)), trained(made.params(made.WITHOUT_DROPOUT, compile="aot_eager"))
    assert losses(compiled) == pytest.approx(losses(plain), abs=1e-5)
    assert compiled.weights.keys() == plain.weights.keys()


def test_unknown_compile_backend_error_lists_the_available_ones(project, trained):
    with pytest.raises(ParamsError, match=r"train.compile: torch does not have a backend 'inductr'(.|\n)*inductor"):
        trained(made.params(compile="inductr"))


def test_the_layers_to_shard_are_found_in_the_model():
    from stages.train.model import build_model
    from tuneline.files.schemas import LabelSchema

    assert transformer_layer_class(build_model(made.params().model, LabelSchema(made.NAMES), made.tokenizer())) == "BertLayer"


def test_startup_summary_has_device_parameters_shapes_and_initial_loss(trained, capsys):
    trained(made.params())
    said = capsys.readouterr().out
    assert "cpu " in said
    assert "float32, 1 process" in said
    assert "5,859 of 5,859 parameters are trainable" in said
    assert "the last layer computes only the first token" in said
    assert "first micro-batch: input_ids (4, 1" in said
    assert "a uniform prediction gives ln(3) = 1.0986" in said
    assert "WARNING" not in said


def test_startup_summary_warns_of_a_broken_head(trained, capsys):
    trained(made.params({"initializer_range": 30.0}, max_grad_norm=1.0, epochs=1))
    assert "WARNING: the initial loss is far higher than that of a uniform prediction" in capsys.readouterr().out
