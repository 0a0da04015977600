"""The parameters that a plan sets."""

from typing import Any

from tuneline.cli.init.planning import Plan
from tuneline.metrics import Task, metrics_for, primary_metric
from tuneline.paths import SPLITS


def plan_params(plan: Plan, metric: str, current: bool) -> dict[str, Any]:
    """Return the parameters for a plan, by dotted key.

    Args:
        plan: The plan.
        metric: The current ``train.metric``, which stays if it suits the task.
        current: The parameters are for this data already: the names of its classes and its behaviour tests stay.
    """
    layout, regression = plan.layout, plan.decision.task == "regression"
    tabs = layout.delimiter == "\t"
    usual = {"delimiter": "\t" if tabs else ",", "quoting": "literal" if tabs else "standard"}
    task: Task = "regression" if regression else "classification"
    suitable = {metric.name for metric in metrics_for(task) if metric.validated}
    delimited = layout.kind == "delimited"
    bad_rows = {"data.bad_rows": "skip", "data.max_bad_share": plan.max_bad_share} if plan.left_out.share else {}
    of_other_data = {} if current else {"data.label_names": None, "data.as_of": None, "data.last_days": None, "evaluate.behaviour": None}
    return {
        "data.source": "files",
        "data.path": plan.placement.data_path,
        "data.name": None,
        "data.revision": None,
        "data.splits": {split: plan.placement.specs.get(split, split) for split in SPLITS},
        "data.split": None if plan.split is None else plan.split.model_dump(),
        "data.text_columns": list(plan.decision.text_columns),
        "data.label_column": plan.decision.label_column,
        "data.task": plan.decision.task,
        "data.files.delimiter": layout.delimiter if delimited and layout.delimiter != usual["delimiter"] else None,
        "data.files.quoting": layout.quoting if delimited and layout.quoting != usual["quoting"] else None,
        "data.files.columns": list(plan.columns) if delimited and not layout.header else None,
        "data.files.encoding": "utf-8" if layout.kind == "parquet" else layout.encoding.removesuffix("-sig"),
        **bad_rows,
        **of_other_data,
        "train.metric": metric if metric in suitable else primary_metric(task).name,
    }
