"""Run a sweep: workers train the trials in working trees of their own.

This process alone decides what is next, and writes the record. Each worker has one working tree,
``.dvc/tmp/experiments/sweep-NAME-WORKER``, for all its trials, and finds the checkpoints of a trial in
``.dvc/tmp/sweeps/NAME/checkpoints/NUMBER``, wherever that was trained before. Up to a rung, the training
starts without DVC. To the end, DVC runs the stage, which resumes from the checkpoint, and the result becomes
an experiment.
"""

import contextlib
import functools
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tuneline.core.launch import find_devices
from tuneline.core.machine import threads
from tuneline.core.records import Metrics
from tuneline.core.written_records import write_record
from tuneline.core.yaml_files import read_yaml
from tuneline.experiments.in_progress import Experiment, opened
from tuneline.experiments.overrides import check_key, params_with, with_alternatives
from tuneline.experiments.saved import TRAIN_STAGE
from tuneline.experiments.validation import ValidationScore, validation_score
from tuneline.params.params_file import get_value, write
from tuneline.paths import (
    CANDIDATES,
    CHECKPOINTS,
    METRICS,
    PARAMS,
    PIPELINE,
    REPORTS,
    TOKENIZED,
    VALIDATION_PREDICTIONS,
)
from tuneline.repository.git import git
from tuneline.runtime.atomic_files import replace_file
from tuneline.runtime.errors import PERMANENT, DiskError, ParamsError, StageError
from tuneline.runtime.locks import BusyError, locked
from tuneline.runtime.terminal import say
from tuneline.runtime.wording import first_of
from tuneline.sweeps.record import (
    SWEEP_STATE,
    Configuration,
    SweepRecord,
    TrainingTask,
    Trial,
    check_errors,
    left_behind,
    next_tasks,
    predictions_file,
)
from tuneline.sweeps.space import LATENCY, Sweep, Values, all_draws, next_draw, with_seed

ATTEMPTS = 3
"""Starts of a training that the system kills, or a disk or network stops.

A wrong parameter or data fail at once.
"""
NOTE = REPORTS / "interrupted" / "train.json"
PAUSE = "TUNELINE_PAUSE_AT_STEP"
_EXITED = re.compile(r"exited with (-?\d+)")
_INPUTS = ("conf/accelerate", "data", "dvc.yaml", "models", "params.yaml", "project", "stages", "tuneline")


Show = Callable[[SweepRecord, Collection[int]], None]
"""Function that shows the record of a running sweep, given the numbers of the trials in training."""


@contextlib.contextmanager
def locked_folder(root: Path, name: str) -> Iterator[Path]:
    """Yield the folder of a sweep, which no other process writes meanwhile.

    Raises:
        StageError: Another process runs this sweep.
    """
    folder = root / SWEEP_STATE / name
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder / "lock", wait=0):
            yield folder
    except BusyError:
        raise StageError(
            f"Sweep {name} is running already.",
            "Wait for it, or stop it with Ctrl-C: the same command goes on.",
        ) from None


def run_sweep(root: Path, file: Path, workers: int, show: Show, *, restart: bool = False) -> SweepRecord:
    """Run a sweep to its end, from where an earlier process was stopped or killed, and return its record.

    Raises:
        ParamsError: The file, or a configuration that is drawn from it, is invalid. Nothing has run.
        StageError: The sweep cannot go on; the message says why.
    """
    sweep, name = Sweep.read(file), file.stem
    if sweep.measures_latency and workers > 1:
        raise StageError(f"{LATENCY} cannot be measured beside other trainings.", "Leave --workers out.")

    with locked_folder(root, name) as folder:
        # the record, of an earlier start if there was one
        if restart:
            shutil.rmtree(folder / "checkpoints", ignore_errors=True)
            (folder / "record.json").unlink(missing_ok=True)
        record = SweepRecord.read_if_exists(folder / "record.json")
        if record is None:
            record = begin(root, sweep, workers)
        if record.sweep != sweep.model_dump(mode="json"):
            raise StageError(
                f"{file} has changed since the sweep began.",
                "Copy it to another name, or begin again with --restart.",
            )
        check_errors(record)

        if next_tasks(sweep, record) or _is_drawing(sweep, record):
            record = _train_trials(root, folder, sweep, record, workers=workers, show=show)
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        show(record, ())
        return record


def _train_trials(
    root: Path, folder: Path, sweep: Sweep, record: SweepRecord, *, workers: int, show: Show
) -> SweepRecord:
    """Train what is left to do, in a working tree for each worker, and return the record."""
    name = folder.name
    with contextlib.ExitStack() as stack:
        trees = [
            stack.enter_context(opened(root, f"sweep-{name}-{worker}", record.params))
            for worker in range(workers)
        ]
        record = on_same_inputs(trees[0], record)
        write_record(folder / "record.json", record)

        trials = len(record.trials) or sweep.trials
        say(f"sweep: {name}: {trials} trials; first, the stages before {TRAIN_STAGE!r}, once")
        for tree in trees:
            prepare_trials(tree, record.params, folder / "logs" / "prepare.log")
        record = SweepWorkers(folder, sweep, trees, show, record).run()
        for tree in trees:
            tree.discard()
    return record


def begin(root: Path, sweep: Sweep, workers: int) -> SweepRecord:
    """Return the record of a new sweep, once every configuration that can be known was found valid."""
    params = read_yaml(root / PARAMS)
    metric = str(get_value(params, "train.metric"))
    _check_sweep(sweep, params, metric)

    # values that all trials have
    settings: dict[str, Any] = {}
    if sweep.halving:
        interval = get_value(params, "train.evaluate_every_steps")
        # so that every rung is an evaluation that is due anyway
        if not interval or sweep.halving.first_steps % interval:
            settings["train.evaluate_every_steps"] = sweep.halving.first_steps
    if get_value(params, "model.head") == "auto" and "model.head" not in sweep.parameters:
        say(
            "sweep: the variants have model.head null: fine-tuned models are compared, and the linear one on"
            " the frozen checkpoint is not"
        )
        settings["model.head"] = None

    # tpe draws later, by what came of earlier draws: random ones show whether the space is valid
    learns = sweep.sampler == "tpe"
    draws = all_draws(sweep.model_copy(update={"sampler": "random"}) if learns else sweep)
    for values in draws:
        for seed in sweep.seeds:
            params_with(root, with_alternatives({**settings, **with_seed(values, seed)}))

    record = SweepRecord(
        sweep=sweep.model_dump(mode="json"),
        inputs="",
        params=params_with(root, settings),
        metric=metric,
        greater_is_better=ValidationScore(metric, 0.0).greater_is_better,
        threads=threads(workers),
        exhausted=not learns,
    )
    return record if learns else record.with_draws(draws, sweep.seeds)


def _check_sweep(sweep: Sweep, params: Any, metric: str) -> None:
    """Check that a sweep makes sense with ``params.yaml``.

    Raises:
        ParamsError: It does not; the message names the key.
    """
    if sweep.objectives and sweep.objectives[0] != metric:
        raise ParamsError(
            f"objectives: {sweep.objectives[0]} is not the validation metric: train.metric is {metric}."
        )

    may_be_frozen = "model.head" in sweep.parameters or get_value(params, "model.head") == "frozen"
    varies_training_alone = all(key.startswith("train.") for key in sweep.parameters)
    if may_be_frozen and (sweep.halving or varies_training_alone):
        raise ParamsError(
            "model.head: a frozen checkpoint has no training steps that a sweep could vary or stop early.",
            "Set model.head to null in params.yaml. A sweep of model.head itself has no halving.",
        )

    for key in sweep.parameters:
        check_key(key)


def on_same_inputs(tree: Experiment, record: SweepRecord) -> SweepRecord:
    """Return the record with what it is based on.

    Raises:
        StageError: Code, data or parameters have changed since the sweep began.
    """
    if not record.inputs:
        return record.model_copy(update={"inputs": tree.inputs})
    difference = git(tree.root, "diff", "--name-only", record.inputs, tree.inputs, "--", *_INPUTS)
    changed = difference.splitlines()
    if changed:
        raise StageError(
            f"Since the sweep began, {first_of(changed, 3)} changed.",
            "Undo this, or begin again with --restart.",
        )
    return record


def prepare_trials(tree: Experiment, params: str, log: Path) -> None:
    """Run the stages before the training, which all trials share.

    For the second worker, their outs are in DVC's cache.
    """
    # the stages of which the training uses an out
    stages = read_yaml(tree.path / PIPELINE)["stages"]
    deps = _paths(stages[TRAIN_STAGE].get("deps", []))
    needed = []
    for name, stage in stages.items():
        outs = _paths(stage.get("outs", []))
        if any(f"{dep}/".startswith(f"{out}/") for out in outs for dep in deps):
            needed.append(name)

    write(tree.path / PARAMS, params)
    log.parent.mkdir(exist_ok=True)
    with log.open("w", encoding="utf-8") as output:
        code = tree.reproduce(*needed, output=output) if needed else 0
    if code:
        last = "\n  ".join(log.read_text(encoding="utf-8").splitlines()[-12:])
        raise StageError(
            f"The stages before {TRAIN_STAGE!r} did not finish:\n  {last}",
            "Correct it, and repeat the command.",
        )


def _paths(entries: Sequence[Any]) -> list[str]:
    """Return the paths of deps or outs of a stage in ``dvc.yaml``, where one with options is a mapping."""
    return [entry if isinstance(entry, str) else next(iter(entry)) for entry in entries]


def _is_drawing(sweep: Sweep, record: SweepRecord) -> bool:
    """Return True if a sampler that learns has configurations left to draw."""
    return not record.exhausted and len(record.configurations()) < (sweep.trials or 0)


@dataclass
class SweepWorkers:
    """The workers of a sweep.

    All methods but ``train`` and those it calls run in one thread, which owns the record.
    """

    folder: Path
    sweep: Sweep
    trees: Sequence[Experiment]
    show: Show
    record: SweepRecord
    training: dict[Future[Trial | None], tuple[int, TrainingTask]] = field(default_factory=dict)
    stopping: bool = False

    def run(self) -> SweepRecord:
        """Train until nothing is left to do."""
        with ThreadPoolExecutor(len(self.trees)) as pool:
            try:
                while self._start(pool):
                    self.show(self.record, {task.trial.number for _, task in self.training.values()})
                    done, _ = wait(self.training, timeout=1.0, return_when=FIRST_COMPLETED)
                    for future in done:
                        self.training.pop(future)
                        self._record(future.result())
            finally:
                self._stop()
        return self.record

    def _stop(self) -> None:
        """End what the workers have started: supervisors, and a training that they end saves a checkpoint."""
        self.stopping = True
        while not all(future.done() for future in self.training):
            for process in psutil.Process().children():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.terminate()
            wait(self.training, timeout=1.0)

    def _start(self, pool: ThreadPoolExecutor) -> bool:
        """Give every idle worker a task if there is one; return False if none works."""
        self._draw()

        busy = {worker: task.trial.number for worker, task in self.training.values()}
        idle = [worker for worker in range(len(self.trees)) if worker not in busy]
        tasks = next_tasks(self.sweep, self.record, drawing=_is_drawing(self.sweep, self.record))
        open_tasks = [task for task in tasks if task.trial.number not in busy.values()]
        for worker, task in zip(idle, open_tasks, strict=False):
            self.training[pool.submit(self.train, worker, task)] = (worker, task)
        return bool(self.training)

    def _draw(self) -> None:
        """Draw what a sampler that learns has to draw now, and nothing more once the hours are over."""
        if self._hours_are_over():
            self._leave_out_unbegun()

        # as many as the workers can train
        while _is_drawing(self.sweep, self.record):
            if len(next_tasks(self.sweep, self.record, drawing=True)) >= len(self.trees):
                break
            draw = self._next_draw()
            if draw is None:
                self._write(self.record.model_copy(update={"exhausted": True}))
            else:
                self._write(self.record.with_draws([draw], self.sweep.seeds))

    def _hours_are_over(self) -> bool:
        if self.sweep.hours is None:
            return False
        spent = sum(trial.seconds for trial in self.record.trials) / len(self.trees)
        return spent > self.sweep.hours * 3600

    def _leave_out_unbegun(self) -> None:
        """Remove the configurations that nobody has begun to train from the record."""
        begun = {task.trial.configuration for _, task in self.training.values()}
        begun |= {trial.configuration for trial in self.record.trials if trial.steps or trial.error}
        trials = tuple(trial for trial in self.record.trials if trial.configuration in begun)
        record = self.record.model_copy(update={"trials": trials, "exhausted": True})
        if record != self.record:
            self._write(record)

    def _next_draw(self) -> Values | None:
        """Draw a configuration by what came of the earlier ones; ``None`` if the space has no other one."""
        configurations = self.record.configurations()
        directions = ["maximize" if self.record.greater_is_better else "minimize"]
        if self.sweep.measures_latency:
            directions.append("minimize")
        return next_draw(
            self.sweep,
            [configuration.values for configuration in configurations],
            [_objectives(configuration) for configuration in configurations],
            directions,
        )

    def _record(self, trial: Trial | None) -> None:
        if trial is None:  # this process is being stopped
            return
        self._write(self.record.with_trial(trial))

        # remove the checkpoints of trials that do not go on
        ended = [trial] if trial.error or trial.is_finished else []
        if not _is_drawing(self.sweep, self.record):
            ended += left_behind(self.sweep, self.record)
        for ended_trial in ended:
            shutil.rmtree(self.folder / "checkpoints" / str(ended_trial.number), ignore_errors=True)
        check_errors(self.record)

    def _write(self, record: SweepRecord) -> None:
        self.record = record
        write_record(self.folder / "record.json", record)

    def train(self, worker: int, task: TrainingTask) -> Trial | None:
        """Do a task, and return the trial as it is then; ``None`` if this process is being stopped.

        Runs in a thread.
        """
        started = time.monotonic()
        tree, trial = self.trees[worker], task.trial
        checkpoints = self.folder / "checkpoints" / str(trial.number)
        checkpoints.mkdir(parents=True, exist_ok=True)
        _link(tree.path / CHECKPOINTS, checkpoints.resolve())
        try:
            write(tree.path / PARAMS, self.record.params)
            write(tree.path / PARAMS, params_with(tree.path, with_alternatives(trial.parameters)))
            changes = self._attempts(worker, task)
        except DiskError:  # it is no fault of the trial
            raise
        except StageError as error:
            changes = {"error": str(error)}
        if self.stopping:
            return None
        seconds = round(trial.seconds + time.monotonic() - started, 1)
        return trial.model_copy(update={**changes, "seconds": seconds})

    def _attempts(self, worker: int, task: TrainingTask) -> dict[str, Any]:
        """Train until the task is done or fails; return what is new of the trial."""
        tree, trial = self.trees[worker], task.trial
        message = ""
        for _ in range(ATTEMPTS):
            (tree.path / NOTE).unlink(missing_ok=True)
            code, printed = self._start_training(worker, task)

            if task.pause is None and code == 0:
                return self._finish(tree, trial)
            note = None if task.pause is None else _pause_note(tree)
            if note is not None:
                return self._pause(worker, trial, note)

            # it failed: what the system or a disk has stopped is started again
            message = _error(printed) or f"ended with exit code {code}"
            exits = _EXITED.findall(printed)
            if exits:
                code = int(exits[-1])  # DVC does not pass the stage's exit code on
            if self.stopping or code == PERMANENT:
                break
        return {"error": message}

    def _pause(self, worker: int, trial: Trial, note: Mapping[str, Any]) -> dict[str, Any]:
        """Keep the predictions of a trial that has paused, and return what is new of it."""
        predictions = self.trees[worker].path / NOTE.with_name("validation.parquet")
        _copy(predictions, predictions_file(self.folder, trial.number))
        changes = {
            "steps": note["step"],
            "total_steps": note["steps"],
            "rungs": (*trial.rungs, note["best"]["value"]),
        }
        if note["step"] < note["steps"]:
            return changes
        # the pause was at its last step
        return self._attempts(worker, TrainingTask(trial.model_copy(update=changes), None))

    def _start_training(self, worker: int, task: TrainingTask) -> tuple[int, str]:
        """Run the training; return its exit code and what it printed.

        It runs in DVC's stage if it is to end, or needs stages before it.
        """
        tree = self.trees[worker]
        env = {"OMP_NUM_THREADS": str(self.record.threads), **_gpu(worker, len(self.trees))}
        command = [sys.executable, "-P", "-m", "dvc", "repro", TRAIN_STAGE]
        if task.pause is not None:
            env[PAUSE] = str(task.pause)
            if all(key.startswith("train.") for key in self.sweep.parameters):
                command = [sys.executable, "-m", "stages.train.launch"]

        log = self.folder / "logs" / f"{task.trial.number}.log"
        log.parent.mkdir(exist_ok=True)
        with log.open("a+", encoding="utf-8") as output:
            start = output.seek(0, os.SEEK_END)
            code = tree.execute(command, output, env)
            output.seek(start)
            return code, output.read()

    def _finish(self, tree: Experiment, trial: Trial) -> dict[str, Any]:
        """Keep a trained model as an experiment, and return what is new of the trial."""
        _copy(tree.path / VALIDATION_PREDICTIONS, predictions_file(self.folder, trial.number))
        metrics = Metrics.read_values(tree.path / METRICS / "train.json")
        score = validation_score(metrics, read_yaml(tree.path / PARAMS))
        if score is None:
            raise StageError(f"{METRICS}/train.json has no validation metric.")

        overrides = [f"{key}={json.dumps(value)}" for key, value in trial.parameters.items()]
        message = {"overrides": overrides, "seconds": tree.seconds()}
        tree.save(message, TRAIN_STAGE, f"{self.folder.name}-{trial.number}")

        steps = int(metrics["steps"])
        changes: dict[str, Any] = {
            "metric": score.value,
            "steps": steps,
            "total_steps": steps,
            "rungs": trial.rungs,
        }
        if self.sweep.measures_latency:
            changes["latency_ms"] = self._latency(tree, trial)
        return changes

    def _latency(self, tree: Experiment, trial: Trial) -> float:
        """Export the model, and measure its latency in milliseconds."""
        log = self.folder / "logs" / f"{trial.number}.log"
        with log.open("a", encoding="utf-8") as output:
            code = tree.run("repro", "export", output=output)
        measured = log.with_suffix(".latency")
        if code == 0:
            model = str(CANDIDATES / "model.int8.onnx")
            command = [sys.executable, "-m", "tuneline.results.latency", model, str(TOKENIZED), "validation"]
            with measured.open("w", encoding="utf-8") as output:
                code = tree.execute(command, output)
        if code:
            raise StageError(f"its latency could not be measured; {log} has the reason.")
        return float(json.loads(measured.read_text(encoding="utf-8"))["p50_ms"])


def _objectives(configuration: Configuration) -> list[float] | None:
    """Return the objectives from which a sampler learns, with halving the metric of the first rung.

    They are empty if a trial failed, and ``None`` while they are not known.
    """
    if configuration.error:
        return []
    mean, latency = configuration.mean(0), configuration.latency_ms
    if mean is None:
        return None
    return [mean] if latency is None else [mean, latency]


def _copy(source: Path, target: Path) -> None:
    """Copy a file, if it exists."""
    with contextlib.suppress(FileNotFoundError), replace_file(target) as partial:
        shutil.copyfile(source, partial)


def _pause_note(tree: Experiment) -> dict[str, Any] | None:
    """Return the note of a training that has paused; ``None`` if it was interrupted otherwise."""
    with contextlib.suppress(OSError, ValueError):
        note: dict[str, Any] = json.loads((tree.path / NOTE).read_bytes())
        has_predictions = (tree.path / NOTE.with_name("validation.parquet")).exists()
        if note["signal"] == PAUSE and has_predictions:
            return note
    return None


def _link(link: Path, target: Path) -> None:
    """Make a symbolic link, in place of another one or of a folder."""
    if link.is_symlink():
        link.unlink()
    shutil.rmtree(link, ignore_errors=True)
    link.symlink_to(target)


def _error(printed: str) -> str:
    """Return the first line of the last message of the training, or else the last line."""
    lines = [line for line in printed.splitlines() if line.strip()]
    messages = [line for line in lines if line.startswith("train: ")]
    if messages:
        return messages[-1].removeprefix("train: ")
    return lines[-1] if lines else ""


@functools.cache
def _gpu(worker: int, workers: int) -> dict[str, str]:
    """Return the variable that gives each of several workers a GPU of its own, if there is one."""
    devices = find_devices() if workers > 1 else None
    if devices is None or devices.type != "cuda":
        return {}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",") if visible else [str(number) for number in range(devices.count)]
    return {"CUDA_VISIBLE_DEVICES": names[worker % len(names)]}
