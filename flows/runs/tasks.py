"""The tasks of flow ``train``: one for each DVC stage, and those around them. DVC is the only cache: Prefect's is off."""

from typing import Any

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas import State
from prefect.states import Completed

from flows.promotion.reference import take_reference
from flows.promotion.registry import Registry
from flows.runs.checkout import Checkout
from flows.runs.line import Graph, Line, compose
from flows.runs.repository import dvc_config
from flows.settings import StagePolicy

UNCACHED: dict[str, Any] = {"cache_policy": NO_CACHE, "persist_result": False}
_UNCHANGED = {
    "skipped": ("Skipped", "Nothing that the stage reads has changed."),
    "restored": ("Restored", "DVC had run the stage on these inputs before, and restored what came out."),
}


@task(name="prepare", task_run_name="prepare", **UNCACHED)
def prepare(line: Line, checkout: Checkout, registry: Registry, stage: str) -> Graph:
    """Sets the parameters, reads the graph, restores what the cache has, and takes the profile of the data in production."""
    if checkout.work.overrides:
        compose(checkout.path, dvc_config(checkout.path), checkout.work.overrides)
    graph = line.graph()
    line.restore(graph.sources)
    if version := take_reference(line, registry, stage):
        line.on_line(f"The data will be compared with that of {registry.artifact} {version.name}, which is in {stage}.")
    return graph


def stage_task(stage: str, policy: StagePolicy) -> Task[[Line], State[Any] | None]:
    """The task of one stage: named after it, with its retries and timeout. A stage that DVC skipped ends as Skipped.

    Without tags: Prefect asks the server about the concurrency limit of each, and loses two seconds after every long stage
    because the server has closed the idle connection by then (measured with 3.8.8).
    """

    @task(
        name=stage,
        task_run_name=stage,
        retries=policy.retries,
        retry_delay_seconds=policy.delays,
        timeout_seconds=policy.timeout_minutes * 60,
        **UNCACHED,
    )
    def run(line: Line) -> State[Any] | None:
        if (outcome := line.reproduce(stage)) == "ran":
            return None
        name, message = _UNCHANGED[outcome]
        return Completed(name=name, message=message)

    return run


@task(name="push", task_run_name="push", retries=2, retry_delay_seconds=[10, 60], **UNCACHED)
def push_artifacts(line: Line) -> None:
    """Sends what the run made to the DVC remote. Before the commit goes out: a commit names what can be fetched."""
    line.dvc("push", what="Pushing artifacts to the DVC remote")
