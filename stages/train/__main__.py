"""Train the classifier on the tokenized splits.

Start: ``python -m stages.train.launch``, which starts it on the devices of ``train.launch``.

Reads: ``data/tokenized/{train,validation}.parquet``, ``data/tokenized/tokenizer/``, ``models/base/``; the parameters ``seed``,
``model.config``, ``train``; the functions in ``project/`` that ``train.loss`` and ``train.metric`` name.
Computes: a training loop on accelerate (stages/train/loop.py); keeps the best weights by the validation metric, or the last.
Writes: ``models/classifier/``, ``plots/training/{loss,validation}.tsv``, ``metrics/train.json``. During the run: ``checkpoints/``,
``reports/live/``. After an interruption: ``reports/interrupted/train.json``.
"""

import signal
import sys
from functools import partial
from typing import NoReturn

from accelerate import Accelerator

from stages.train.data import read_inputs
from stages.train.devices import check_devices, create_accelerator, devices_used
from stages.train.heartbeat import end_unless_connected, end_without_other_machines
from stages.train.interruption import Interruption, TrainingInterrupted, clear_note, exit_without_cleanup, write_note
from stages.train.launch import INTERRUPTED, STOPPING, end_with_parent
from stages.train.loop import train
from stages.train.publishing import publish_curves, publish_model, resource_usage, training_metrics
from stages.train.state import TrainingResult
from tuneline.base import read_base
from tuneline.params.loading import load_params
from tuneline.params.warnings import print_warnings
from tuneline.paths import CLASSIFIER, METRICS, PLOTS, TOKENIZER
from tuneline.records.metrics import Metrics
from tuneline.records.provenance import TrainingSegment
from tuneline.stage import Measurements, run_stage
from tuneline.terminal import say


def main(segments: list[TrainingSegment] | None = None) -> Measurements:
    """Train and publish the result; resume if an earlier start of the same run was interrupted.

    Args:
        segments: Receives the segments of the run.

    Raises:
        SystemExit: With exit code 75 after a signal; the state is saved.
    """
    params = load_params()
    read_base(params)
    with end_unless_connected():
        accelerator = create_accelerator(params)
    with end_without_other_machines(), Interruption() as interruption:
        inputs = read_inputs(params.train)
        check_devices(params.train.launch, accelerator)
        if accelerator.is_main_process:
            print_warnings("train", params)
        try:
            result = train(params, inputs, accelerator, interruption)
        except TrainingInterrupted as interrupted:
            exit_interrupted(accelerator, interrupted)
        publish(result)  # from here on, a signal changes nothing: the run ends
        if segments is not None:
            segments += result.state.progress.segments
        usage = resource_usage(result.state)
        accelerator.wait_for_everyone()
    accelerator.end_training()
    return usage


def publish(result: TrainingResult) -> None:
    """Write the outs, then remove the checkpoints: a run killed while publishing resumes from them."""
    state = result.state
    if state.accelerator.is_main_process:
        publish_model(result.model, result.weights, TOKENIZER, CLASSIFIER)
        publish_curves(state.progress, state.metric.name, PLOTS / "training")
        Metrics.of(training_metrics(state.progress, state.metric.name)).write(METRICS / "train.json")
        clear_note()
    state.checkpoints.remove_all()


def exit_interrupted(accelerator: Accelerator, interrupted: TrainingInterrupted) -> NoReturn:
    """Write and print how to resume, and exit.

    Raises:
        SystemExit: Always, with exit code 75.
    """
    if accelerator.is_main_process:
        write_note(interrupted)
        say(f"\ntrain: {interrupted}", error=True)
    accelerator.wait_for_everyone()
    accelerator.end_training()
    if accelerator.num_processes > 1:
        exit_without_cleanup(INTERRUPTED)
    sys.exit(INTERRUPTED)


def run() -> NoReturn:
    """Run the stage in this process, one of those that a launcher has started."""
    segments: list[TrainingSegment] = []
    libraries = ("accelerate", "numpy", "peft", "safetensors", "torch", "transformers")
    try:
        run_stage("train", partial(main, segments), libraries, devices=partial(devices_used, segments))
    finally:
        for number in STOPPING:  # the exit code is settled, and freeing the memory takes a second
            signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    end_with_parent()
    run()
