"""The text of a pull request with the result of a promoted run: the message of its one commit, in Markdown without lines that git strips.

Everything is taken from commits, so that a run that was killed and restarted writes the same text.
"""

import json
import re
from collections.abc import Iterator, Mapping

from flows.runs.repository import GitError, Repository
from flows.runs.results import HEADLINE
from flows.settings.promotion import PromotionPolicy
from tuneline.paths import METRICS, PARAMS
from tuneline.registry import Version

TRAILER = "Tuneline-Promotion"
"""Trailer of the commit: tells the commits of promotions from those of people."""
_CRITERION = re.compile(r"^- ([+x]) (.+?): (.*) \(required: (.*)\)$", re.MULTILINE)


def text(
    repository: Repository, artifact: str, version: Version, before: str | None, policy: PromotionPolicy, *, conflicts: bool = False
) -> str:
    """Return the commit message; its first line is the title.

    Args:
        repository: Repository with the commits.
        artifact: Name of the artifact.
        version: The promoted version.
        before: Commit that was in the stage before; ``None`` if nothing was.
        policy: Names the stage and the target branch.
        conflicts: True if the target branch has changed the same files.
    """
    message = repository.git("log", "-1", "--format=%B", version.commit)
    evaluated, validated = (_compared(repository, stage, before, version.commit) for stage in ("evaluate", "validate"))
    headline = ", ".join(f"{name} {evaluated[name][1]:.4g}" for name in HEADLINE if name in evaluated and evaluated[name][1] is not None)
    parts = [
        f"Promote {artifact} {version.name}: {headline or 'no metrics'}",
        f"{artifact} {version.name} is in {policy.stage} (`{version.commit[:12]}`), whether this is merged or not. This brings its "
        f"`dvc.lock`, metrics and parameters to `{policy.branch}`.",
        *_notes(repository, version.commit, message, policy, conflicts=conflicts),
        *_metrics_table("Metrics", evaluated),
        *_criteria(message),
        *_metrics_table("Data checks", {name: pair for name, pair in validated.items() if pair[0] != pair[1] or name == "warnings"}),
        f"{TRAILER}: {artifact} {version.name} {version.commit}",
    ]
    return "\n\n".join(parts)


def _notes(repository: Repository, commit: str, message: str, policy: PromotionPolicy, *, conflicts: bool) -> Iterator[str]:
    ran = next((line for line in message.splitlines() if line.startswith("The pipeline of ")), "")
    if ran:
        yield ran
    if PARAMS.name in repository.git("diff", "--name-only", f"{commit}^", commit).splitlines():
        yield f"`{PARAMS}` is that of the run: its parameters become the defaults of `{policy.branch}`."
    if conflicts:
        changed = f"`{policy.branch}` has changed the same files since."
        yield f"{changed} Do not merge `dvc.lock` by hand: run the pipeline of `{policy.branch}` again."


def _criteria(message: str) -> Iterator[str]:
    if rows := _CRITERION.findall(message):
        cells = (("✅" if met == "+" else "❌", *(value.replace("|", "\\|") for value in row)) for met, *row in rows)
        lines = (f"| {' | '.join(row)} |" for row in cells)
        yield "\n".join(["**Gate**", "", "| | criterion | value | required |", "|---|---|---|---|", *lines])


def _metrics_table(title: str, metrics: Mapping[str, tuple[float | None, float | None]]) -> Iterator[str]:
    def number(value: float | None, sign: str = "") -> str:
        return "" if value is None else f"{value:{sign}.4g}"

    def difference(before: float | None, after: float | None) -> str:
        return "" if before is None or after is None else number(after - before, "+")

    rows = [f"| {name} | {number(before)} | {number(after)} | {difference(before, after)} |" for name, (before, after) in metrics.items()]
    if rows:
        yield "\n".join([f"**{title}**", "", "| | before | after | difference |", "|---|---|---|---|", *rows])


def _compared(repository: Repository, stage: str, before: str | None, after: str) -> dict[str, tuple[float | None, float | None]]:
    """Return the metrics of a stage in two commits, by name."""
    old, new = (_metrics(repository, stage, commit) if commit else {} for commit in (before, after))
    return {name: (old.get(name), new.get(name)) for name in {**new, **old}}


def _metrics(repository: Repository, stage: str, commit: str) -> dict[str, float]:
    try:
        return dict(json.loads(repository.git("show", f"{commit}:{METRICS}/{stage}.json")))
    except (GitError, ValueError):
        return {}
