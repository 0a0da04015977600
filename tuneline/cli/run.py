"""``tuneline run``: train with other parameters beside the working tree, and keep an experiment."""

import hashlib
import re
import shlex
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuneline.params.loading import known_keys
from tuneline.paths import CHECKPOINTS, PARAMS
from tuneline.runtime.errors import StageError
from tuneline.runtime.terminal import say
from tuneline.runtime.wording import first_of

if TYPE_CHECKING:
    from tuneline.experiments.in_progress import Experiment
    from tuneline.experiments.saved import SavedExperiment
    from tuneline.repository.dvc import Lock

LONGEST = 60
"""Characters of a name that is made from the values."""

Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE]... [task=NAME]",
        help="Values for this training; without one, the values of params.yaml",
    ),
]
Name = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="Name of the experiment. Default: made from the values"),
]
Test = Annotated[bool, typer.Option("--test", help="Run the whole pipeline, and score the test split, too")]


def command(overrides: Overrides = None, name: Name = None, test: Test = False) -> None:
    """Train with other values beside the working tree, score validation, and keep an experiment."""
    from ruamel.yaml import YAML

    from tuneline.experiments.in_progress import opened, require_versioned
    from tuneline.experiments.overrides import params_with, parse_overrides
    from tuneline.experiments.saved import TRAIN_STAGE
    from tuneline.repository.git import require_own_repository
    from tuneline.repository.source_versions import require_present

    root = Path.cwd()
    overrides = overrides or []
    require_own_repository(root)
    require_present(root)

    # parameters
    values, groups = parse_overrides(root, overrides)
    text = params_with(root, values, groups)
    params = YAML(typ="safe", pure=True).load(text)
    require_versioned(root, params)
    name = name or default_name(overrides)
    check_same(root, name, params)

    # training
    stages = [] if test else [TRAIN_STAGE]
    with opened(root, name, text) as experiment:
        announce_experiment(experiment)
        try:
            code = experiment.reproduce(*stages)
        except KeyboardInterrupt as interrupt:
            say(f"\nrun: interrupted. {how_to_go_on(experiment, overrides, test=test)}", error=True)
            raise typer.Exit(128 + getattr(interrupt, "number", signal.SIGINT)) from None
        if code:
            raise StageError(
                f"experiment {name} did not finish; the reason is above.",
                how_to_go_on(experiment, overrides, test=test),
            )

        record = {"overrides": overrides, "seconds": experiment.seconds()}
        saved = experiment.save(record, None if test else TRAIN_STAGE)
        experiment.discard()  # only its tree: the result is saved
    say(experiment_summary(root, saved))


def default_name(overrides: Sequence[str]) -> str:
    """Return a name that says what differs, such as ``learning_rate=5e-5,epochs=3``.

    It is ``base`` if nothing differs. The section of a parameter is in it where others have a parameter of
    the same name.
    """
    from tuneline.experiments.saved import BASE_EXPERIMENT

    if not overrides:
        return BASE_EXPERIMENT
    last_parts = Counter(key.rpartition(".")[2] for key in known_keys())
    texts = []
    for override in overrides:
        key, _, value = override.partition("=")
        _, _, last = key.rpartition(".")
        short = last if last_parts[last] == 1 else key
        texts.append(f"{short}={value}")

    # The name becomes part of a git ref, which has rules of its own
    name = re.sub(r"[^A-Za-z0-9_.,=+-]+", "-", ",".join(texts))
    name = re.sub(r"\.{2,}", ".", name).strip("-.,=+_")
    if len(name) > LONGEST or not name or name.endswith(".lock"):
        digest = hashlib.sha256(",".join(overrides).encode()).hexdigest()
        name = f"{name[:LONGEST].rstrip('-.,=+_')}-{digest[:6]}".lstrip("-")
    return name


def check_same(root: Path, name: str, params: Mapping[str, Any]) -> None:
    """Refuse the name of an experiment on the same commit that has other parameters."""
    from tuneline.experiments.saved import saved_experiments
    from tuneline.repository.git import git

    for experiment in saved_experiments(root, git(root, "rev-parse", "HEAD")):
        if experiment.name == name and experiment.params != params:
            hint = f"Give this one a name (--name), or remove that one: tuneline experiments remove {name}"
            raise StageError(f"Experiment {name} exists, with other parameters.", hint)


def announce_experiment(experiment: "Experiment") -> None:
    """Say where the experiment runs, and which uncommitted changes it has."""
    from tuneline.repository.git import git

    changed = git(experiment.root, "diff", "--name-only", experiment.base, experiment.inputs).splitlines()
    uncommitted = []
    for path in changed:
        # Every experiment has parameters of its own, and the pipeline writes the rest
        if path not in {PARAMS.as_posix(), "dvc.lock"} and not path.startswith("metrics/"):
            uncommitted.append(path)

    verb = "continues" if experiment.resumed else "runs"
    place = experiment.path.relative_to(experiment.root)
    message = f"run: experiment {experiment.name} {verb} in {place}"
    if uncommitted:
        message += f", with uncommitted changes of {first_of(uncommitted, 3)}"
    say(message)


def how_to_go_on(experiment: "Experiment", overrides: Sequence[str], *, test: bool) -> str:
    """Return the command that continues an experiment, and from which step."""
    options = [*overrides, "--name", experiment.name]
    if test:
        options.append("--test")

    folders = (experiment.path / CHECKPOINTS).glob("*/step-*")
    steps = [int(folder.name.removeprefix("step-")) for folder in folders]
    where = "from the last complete stage"
    if steps:
        where = f"from step {max(steps)}"
    return f"It resumes {where}: tuneline run {shlex.join(options)}"


def experiment_summary(root: Path, saved: "SavedExperiment") -> str:
    """Return the last line: score with interval, difference from the base, and what to do next."""
    from tuneline.experiments.saved import BASE_EXPERIMENT
    from tuneline.experiments.validation import compare_scores, validation_score

    score = validation_score(saved.metrics(), saved.params)
    if score is None:
        return f"run: experiment {saved.name} is complete."
    text = f"run: {saved.name}: validation {score.metric} {score}"
    if saved.name == BASE_EXPERIMENT:
        return f"{text}. Next: `tuneline run KEY=VALUE`, `tuneline experiments`"

    compared = compare_scores(root, saved.lock, base_lock(root, saved), score.metric)
    if compared:
        text += f", {compared} against {BASE_EXPERIMENT}: {compared.verdict}"
    else:
        text += f"; no {BASE_EXPERIMENT} on the same rows to compare with: `tuneline run` makes it"
    return f"{text}. Next: `tuneline experiments`, `tuneline experiments apply {saved.name}`"


def base_lock(root: Path, saved: "SavedExperiment") -> "Lock":
    """Return ``dvc.lock`` of the experiment named base, else of the commit itself."""
    from tuneline.experiments.saved import BASE_EXPERIMENT, saved_experiments
    from tuneline.repository.git import lock_at

    for experiment in saved_experiments(root, saved.base):
        if experiment.name == BASE_EXPERIMENT:
            return experiment.lock
    return lock_at(root, saved.base)
