"""The tasks of flow ``train`` around and for the DVC stages. DVC is the only cache: Prefect's is off."""

from typing import Any

from prefect import Task, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas import State
from prefect.states import Completed

from flows.promotion.reference import fetch_reference
from flows.promotion.registry import Registry
from flows.runs.checkout import Checkout
from flows.runs.deaths import KilledError
from flows.runs.pipeline import Graph, Pipeline
from flows.settings.stages import StagePolicy

UNCACHED: dict[str, Any] = {"cache_policy": NO_CACHE, "persist_result": False}
_UNCHANGED = {
    "skipped": ("Skipped", "Nothing that the stage reads has changed."),
    "restored": ("Restored", "DVC ran the stage on these inputs before, and restored its outs."),
}


@task(name="prepare", task_run_name="prepare", **UNCACHED)
def prepare(pipeline: Pipeline, checkout: Checkout, registry: Registry, stage: str) -> Graph:
    """Set the parameters, read the graph, restore what the cache has, and fetch the profile of production's data."""
    if checkout.spec.overrides:
        pipeline.compose(checkout.spec.overrides)
    graph = pipeline.graph()
    pipeline.restore(graph.sources)
    if version := fetch_reference(pipeline, registry, stage):
        pipeline.on_line(f"The data will be compared with those of {registry.artifact} {version.name}, which is in {stage}.")
    return graph


def stage_task(stage: str, policy: StagePolicy) -> Task[[Pipeline], State[Any] | None]:
    """Return the task of one stage: named after it, with its retries and timeout. A stage that DVC skips ends as Skipped.

    A stage that a signal killed is started again within its timeout; one that failed by itself is not, unless the policy has retries.

    The task has no tags: Prefect requests the concurrency limit of each tag from the server, and after every long stage loses two
    seconds because the server has closed the idle connection (measured with 3.8.8).
    """

    @task(
        name=stage,
        task_run_name=stage,
        retries=policy.retries,
        retry_delay_seconds=policy.delays,
        timeout_seconds=policy.timeout_minutes * 60,
        **UNCACHED,
    )
    def run(pipeline: Pipeline) -> State[Any] | None:
        killed: list[str] = []
        while True:
            try:
                outcome = pipeline.reproduce(stage)
                break
            except KilledError as error:
                if len(killed) == policy.retries_after_signal:
                    raise
                killed.append(error.signal.name)
                get_run_logger().warning("%s\nIt is started again (%d of %d).", error, len(killed), policy.retries_after_signal)
        if outcome == "ran":
            return Completed(message=f"Killed by {', '.join(killed)}, then started again.") if killed else None
        name, message = _UNCHANGED[outcome]
        return Completed(name=name, message=message)

    return run


@task(name="push", task_run_name="push", retries=2, retry_delay_seconds=[10, 60], **UNCACHED)
def push_artifacts(pipeline: Pipeline) -> None:
    """Push the outs of the run to the DVC remote. Done before its commit is pushed: what a commit names must be available."""
    pipeline.dvc("push", what="Pushing artifacts to the DVC remote")
