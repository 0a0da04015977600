"""Out of memory, as torch reports it, raised by a forward hook."""

import pytest

from stages.train import state
from tests.stages.train import made
from tuneline.errors import ParamsError


@pytest.fixture
def memory_for(monkeypatch):
    """Gives a model memory for so many examples."""
    build = state.build_model

    def limit(examples):
        def limited(*arguments):
            model = build(*arguments)

            def check(module, args, inputs):
                if module.training and len(inputs["input_ids"]) > examples:
                    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")

            model.register_forward_pre_hook(check, with_kwargs=True)
            return model

        monkeypatch.setattr(state, "build_model", limited)

    return limit


def losses(outcome):
    return [row.loss for row in outcome.state.progress.logged]


def test_the_micro_batch_is_halved_and_the_global_batch_stays(trained, memory_for, capsys):
    expected = trained(made.params(made.WITHOUT_DROPOUT, micro_batch_size=2))
    memory_for(3)
    outcome = trained(made.params(made.WITHOUT_DROPOUT, micro_batch_size=8))
    assert outcome.state.micro_batch_size == 2
    assert losses(outcome) == losses(expected)
    assert outcome.state.progress.step == 16
    said = capsys.readouterr().out
    assert "retrying with micro_batch_size 4, global_batch_size is unchanged" in said
    assert "retrying with micro_batch_size 2, global_batch_size is unchanged" in said


def test_when_not_even_one_example_fits_the_message_says_what_to_do(trained, memory_for):
    memory_for(0)
    with pytest.raises(ParamsError, match=r"Out of memory with train.micro_batch_size 1(.|\n)*gradient_checkpointing"):
        trained(made.params(micro_batch_size=2))


def test_other_errors_are_not_taken_for_it(trained, monkeypatch):
    def fail(*_):
        raise RuntimeError("something else")

    monkeypatch.setattr(state, "build_model", fail)
    with pytest.raises(RuntimeError, match="something else"):
        trained(made.params())
