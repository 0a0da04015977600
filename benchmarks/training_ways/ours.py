"""The training loop of the stage ``train``."""

import argparse
import contextlib
import os
from typing import Any

from benchmarks.training_ways.measuring import Meter, matmul_share, model_config, new_model, score, timed
from tests.params import copy_code, params
from tuneline.core.params import Params
from tuneline.core.stage.tables import SplitReader
from tuneline.model.tokens.tokenized_splits import TokenizedSplit
from tuneline.training import loop
from tuneline.training import state as setup
from tuneline.training.checkpoints import Checkpoints
from tuneline.training.data import Inputs
from tuneline.training.devices import create_accelerator
from tuneline.training.interruption import Interruption


def parameters(options: argparse.Namespace) -> Params:
    """Return the parameters of the run; others are those of the tests.

    The last weights are kept, as the other methods do.
    """
    train: dict[str, Any] = {
        "global_batch_size": options.batch,
        "micro_batch_size": options.batch,
        "learning_rate": options.learning_rate,
        "weight_decay": 0.0,
        "warmup_ratio": 0.0,
        "epochs": None if options.steps else options.epochs,
        "max_steps": options.steps,
        "mixed_precision": "bf16" if options.bf16 else "no",
        "keep": "last",
    }
    model = {"model_type": "bert", **model_config(options.layers, options.hidden)}
    return params(seed=options.seed, model={"config": model}, train=train)


def ours(options: argparse.Namespace) -> dict[str, float]:
    """Train with the loop of the stage, in the folder of this run."""
    os.environ["ACCELERATE_USE_CPU"] = str(options.device == "cpu")
    settings = parameters(options)
    meter = Meter(options.clock)
    copy_code(options.folder)
    os.chdir(options.folder)
    with metered(meter, options), timed() as seconds, contextlib.redirect_stdout(None):
        splits = [
            TokenizedSplit.read(SplitReader.open(options.folder, split, "prepare"))
            for split in ("train", "validation")
        ]
        inputs = Inputs(splits[0], splits[1], _Padding())
        result = loop.train_model(settings, inputs, create_accelerator(settings), Interruption())
    state = result.state
    measurements = {**meter.rates(), "seconds": seconds[0], "steps": state.progress.step}
    measurements |= score(state.accelerator.unwrap_model(state.model), inputs.validation)
    state.model.train()
    rows = state.sampler.epoch(1)[0]
    return measurements | {
        "matmul_share": matmul_share(lambda: loop.train_batch(state, rows)) if options.profile else 0.0
    }


class _Padding:
    """The only attribute of a tokenizer that training needs."""

    pad_token_id = 0


@contextlib.contextmanager
def metered(meter: Meter, options: argparse.Namespace) -> Any:
    """Measure the steps of the loop, and make it train the same model as the other methods."""
    train_batch, evaluate, save = loop.train_batch, loop.evaluate_validation, Checkpoints.save
    build, identity = setup.build_model, setup.run_identity

    def counting(state: Any, rows: Any) -> Any:
        lengths = state.sampler.rows.lengths_of(rows)
        if meter.steps >= meter.WARMUP:
            meter.samples += len(rows)
            meter.tokens += int(lengths.sum())
            meter.positions += len(rows) * state.train_loader.width(rows)
        result = train_batch(state, rows)
        meter.step()
        return result

    def unmetered(work: Any) -> Any:
        def done(*arguments: Any) -> Any:
            result = work(*arguments)
            meter.pause()
            return result

        return done

    loop.train_batch = counting
    loop.evaluate_validation = unmetered(evaluate)
    Checkpoints.save = unmetered(save)  # type: ignore[method-assign]
    setup.build_model = lambda *_: (new_model(options), frozenset())
    setup.run_identity = lambda *_: {}  # the folder is no project
    yield
    loop.train_batch = train_batch
    loop.evaluate_validation = evaluate
    Checkpoints.save = save  # type: ignore[method-assign]
    setup.build_model = build
    setup.run_identity = identity
