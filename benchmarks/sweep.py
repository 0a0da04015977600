"""Measure successive halving against the grid: optimizer steps, and the best validation metric, on 27 configurations.

Every configuration (nine learning rates around that of ``params.yaml``, three warmups) is trained to the end,
with an evaluation at each ninth of its steps. That is the grid. A training that pauses and goes on has the
bytes of one that does not (tests/stages/train/test_resume.py), so what halving would have done follows from
these curves, by the function that decides in a sweep.

Run in the root of a project, after ``dvc repro validate``: ``python -m benchmarks.sweep --steps 90 --seeds
3``.
"""

import argparse
import json
import math
import statistics
from pathlib import Path
from typing import Any

from accelerate.state import AcceleratorState, GradientState
from ruamel.yaml import YAML

from stages.train.data import read_inputs
from stages.train.devices import create_accelerator
from stages.train.interruption import Interruption
from stages.train.loop import train_model
from tuneline.core.errors import DataError
from tuneline.params.loading import parse_params
from tuneline.sweeps.record import SweepRecord, Trial, next_tasks
from tuneline.sweeps.space import Sweep, Values, all_draws

FACTOR, RUNGS = 3, 9
Curve = list[tuple[int, float]]


def space(rate: float, steps: int) -> Sweep:
    """Return the 27 configurations, with halving."""
    rates = [float(f"{rate * 2**power:.3g}") for power in range(-5, 4)]
    parameters = {
        "train.learning_rate": {"choice": rates},
        "train.warmup_ratio": {"choice": [0.0, 0.05, 0.1]},
    }
    return Sweep.model_validate(
        {
            "parameters": parameters,
            "sampler": "grid",
            "halving": {"factor": FACTOR, "first_steps": steps // RUNGS},
        }
    )


def curve(values: Values, params: dict[str, Any], steps: int, seed: int) -> Curve:
    """Train to the end; return the best metric so far at each evaluation. Empty if a loss is NaN."""
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    varied = {key.removeprefix("train."): value for key, value in values.items()}
    length = {
        "epochs": None,
        "max_steps": steps,
        "evaluate_every_steps": steps // RUNGS,
        "early_stopping": None,
        "seed": seed,
    }
    run = {**params["run"], "checkpoint_every_steps": None, "trackers": []}
    parsed = parse_params({**params, "train": {**params["train"], **length, **varied}, "run": run})
    try:
        state = train_model(
            parsed, read_inputs(parsed.train), create_accelerator(parsed), Interruption()
        ).state
    except DataError:
        return []
    finally:
        AcceleratorState._reset_state(reset_partial_state=True)
    best, rows = -math.inf if state.metric.greater_is_better else math.inf, []
    for row in state.progress.evaluated:
        best = max(best, row.metric) if state.metric.greater_is_better else min(best, row.metric)
        rows.append((row.step, best))
    state.checkpoints.remove_all()
    return rows


def halve(sweep: Sweep, curves: list[Curve], metric: str, total: int) -> SweepRecord:
    """Return the record of the sweep that has these learning curves."""
    record = SweepRecord(
        sweep={},
        inputs="",
        params="",
        metric=metric,
        greater_is_better=metric not in {"loss", "mse"},
        threads=1,
    )
    record = record.with_draws(all_draws(sweep), [None])
    while tasks := next_tasks(sweep, record):
        for task in tasks:
            record = record.with_trial(
                _trained(task.trial, curves[task.trial.configuration], task.pause or total, total)
            )
    return record


def _trained(trial: Trial, found: Curve, step: int, total: int) -> Trial:
    if not found:
        return trial.model_copy(update={"error": "NaN"})
    value = next(metric for at, metric in reversed(found) if at <= step)
    end = {"metric": value} if step >= total else {}
    return trial.model_copy(
        update={"steps": min(step, total), "total_steps": total, "rungs": (*trial.rungs, value), **end}
    )


def main() -> None:
    """Train the grid for each seed, and print what halving needs and finds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--steps", type=int, default=90, help="optimizer steps of a training, a multiple of 9"
    )
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    params = YAML(typ="safe", pure=True).load(Path("params.yaml"))
    sweep, metric = space(params["train"]["learning_rate"], options.steps), params["train"]["metric"]
    ratios, results = [], []
    for seed in range(options.seeds):
        curves = [curve(values, params, options.steps, seed) for values in all_draws(sweep)]
        ends = [one[-1][1] for one in curves if one]
        record = halve(sweep, curves, metric, options.steps)
        chosen = max(trial.metric for trial in record.trials if trial.metric is not None)
        grid, steps = options.steps * len(curves), sum(trial.steps for trial in record.trials)
        results.append(
            {
                "seed": seed,
                "grid": max(ends),
                "halving": chosen,
                "median": statistics.median(ends),
                "grid_steps": grid,
                "steps": steps,
            }
        )
        ratios.append(grid / steps)
        print(json.dumps(results[-1]), flush=True)
    print(
        f"halving took {1 / statistics.fmean(ratios):.1%} of the grid's steps, {statistics.fmean(ratios):.2f}"
        " x fewer"
    )


if __name__ == "__main__":
    main()
