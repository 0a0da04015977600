"""Commands for next steps: they are what the findings advise, so none of them contradicts one."""

from dataclasses import dataclass

from tuneline.results.verdict.facts import RunFacts, unbeaten
from tuneline.results.verdict.rules import still_improving, undecided

RUN = "dvc exp run --temp train -S"
"""Command that trains with another value."""
TRY_BOTH = f"{RUN} model.head=auto"
REVIEW = "tuneline labels review"
HALVING_COST = 3.0
"""Cost of the first sweep, in trainings.

Of nine variants, all train a ninth of the steps, three a third, and one all of them.
"""


@dataclass(frozen=True)
class NextStep:
    """A command that runs as printed in a project with the result.

    Attributes:
        code: Name of its purpose, which ``words.py`` has.
        seconds: How long it takes; ``None`` if that is not known, or nothing is trained.
    """

    code: str
    command: str
    seconds: float | None = None


def next_steps(run: RunFacts) -> list[NextStep]:
    """Return next steps, the best first."""
    review = NextStep("review", REVIEW)
    # rows that cannot tell how good a model is cannot tell if another one is better
    if run.metric is not None and undecided(run, run.metric) is not None:
        return [review]

    steps = []
    if not run.is_frozen:
        steps += _training_steps(run)
    elif not run.has_tried_both:
        steps.append(_training("tune_too", TRY_BOTH, run, 1))
    return [*steps, review]


def _training_steps(run: RunFacts) -> list[NextStep]:
    """Return the next steps after a fine-tuned model, or one that was trained from scratch."""
    steps = []
    rivals = set()
    if run.metric is not None:
        rivals = {comparison.name for comparison in unbeaten(run, run.metric)}
    if "frozen" in rivals and not run.has_tried_both:
        steps.append(_training("fit_frozen_too", TRY_BOTH, run, 1))
    if still_improving(run) is not None:
        steps.append(_training("twice_as_long", f"{RUN} {run.longer}", run, 2))

    # A sweep tries several rates: half the rate is for projects without one.
    rate = run.params.get("train.learning_rate")
    if run.sweep is not None:
        steps.append(_training("sweep", f"tuneline sweep {run.sweep}", run, HALVING_COST))
    elif rate:
        steps.append(_training("half_rate", f"{RUN} train.learning_rate={rate / 2:.2g}", run, 1))
    return steps


def _training(code: str, command: str, run: RunFacts, trainings: float) -> NextStep:
    """Return a step that takes as long as some trainings."""
    if run.seconds is None:
        return NextStep(code, command)
    return NextStep(code, command, trainings * run.seconds)
