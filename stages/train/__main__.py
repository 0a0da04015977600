"""Trains the classifier on the tokenized splits. Started by ``accelerate launch --config_file conf/accelerate/NAME.yaml -m stages.train``.

Reads: ``data/tokenized/{train,validation}.parquet``, ``data/tokenized/tokenizer/``; the parameters ``seed``, ``model``, ``train``.
Computes: an own loop on accelerate (stages/train/loop.py); the best weights by the validation metric, or the last ones.
Writes: ``models/classifier/``, ``plots/training/{loss,validation}.tsv``, ``metrics/train.json``. While it runs: ``checkpoints/``,
``reports/live/``. When it is interrupted: ``reports/interrupted/train.json``.
"""

import os
import sys
from typing import NoReturn

from accelerate import Accelerator

from stages.train.devices import check_processes, start
from stages.train.inputs import read_inputs
from stages.train.interruption import EXIT_CODE, InterruptedRun, Interruption, clear_note, write_note
from stages.train.publishing import figures_of, metrics_of_run, publish_curves, publish_model
from stages.train.session import Outcome, train
from tuneline.files import write_metrics
from tuneline.params.loading import load_params
from tuneline.paths import CLASSIFIER, METRICS, PLOTS, TOKENIZER
from tuneline.stage import Measurements, run_stage


def main() -> Measurements:
    """Trains, and publishes what came out; goes on where an earlier start of the same run was interrupted.

    Raises:
        SystemExit: With code 75: a signal interrupted it, and the state is saved.
    """
    params = load_params()
    inputs = read_inputs(params.train)
    accelerator = start(params.train)
    check_processes(params.train.launch, accelerator.num_processes)
    with Interruption() as interruption:
        try:
            outcome = train(params, inputs, accelerator, interruption)
        except InterruptedRun as interrupted:
            leave(accelerator, interrupted)
        publish(outcome)
    figures = figures_of(outcome.run)
    accelerator.end_training()
    return figures


def publish(outcome: Outcome) -> None:
    """Writes the outs, then lets go of the checkpoints: a run killed before that goes on from them."""
    run = outcome.run
    if run.accelerator.is_main_process:
        publish_model(outcome.model, outcome.weights, TOKENIZER, CLASSIFIER)
        publish_curves(run.progress, run.params.metric, PLOTS / "training")
        write_metrics(METRICS / "train.json", metrics_of_run(run.progress, run.params.metric))
        clear_note()
    run.checkpoints.remove_all()


def leave(accelerator: Accelerator, interrupted: InterruptedRun) -> None:
    """Says how to go on, in a file and on the screen.

    Raises:
        SystemExit: Always.
    """
    if accelerator.is_main_process:
        write_note(interrupted)
        print(f"\ntrain: {interrupted}", file=sys.stderr, flush=True)
    accelerator.wait_for_everyone()
    accelerator.end_training()
    if accelerator.num_processes > 1:
        _exit_now(EXIT_CODE)
    sys.exit(EXIT_CODE)


def _exit_now(code: int) -> NoReturn:
    """Ends the process without taking its objects apart.

    The last thing done together was a question over gloo. Its thread may still want the interpreter's lock, to let go of the
    tensor; the model's destructor holds that lock while it waits for the thread (torch 2.13). So nothing is destroyed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    run_stage("train", main)
