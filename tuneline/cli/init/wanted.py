"""What the decisions mean in ``params.yaml``."""

from typing import Any

from tuneline.cli.init.planning import Plan
from tuneline.metrics import Task, metrics_for, primary_metric
from tuneline.paths import SPLITS


def wanted_params(plan: Plan, name: str, metric: str) -> dict[str, Any]:
    """The values of ``params.yaml`` that say what was decided.

    Args:
        plan: The plan.
        name: The folder under ``data/source/``.
        metric: The validation metric that is set now.
    """
    layout, regression = plan.layout, plan.decision.task == "regression"
    tabs = layout.delimiter == "\t"
    usual = {"delimiter": "\t" if tabs else ",", "quoting": "literal" if tabs else "standard"}
    task: Task = "regression" if regression else "classification"
    fitting = {metric.name for metric in metrics_for(task) if metric.validated}
    delimited = layout.kind == "delimited"
    return {
        "data.source": "files",
        "data.path": name,
        "data.name": None,
        "data.revision": None,
        "data.splits": {split: split for split in SPLITS},
        "data.text_columns": list(plan.decision.text_columns),
        "data.label_column": plan.decision.label_column,
        "data.label_names": None,
        "data.task": plan.decision.task,
        "data.files.delimiter": layout.delimiter if delimited and layout.delimiter != usual["delimiter"] else None,
        "data.files.quoting": layout.quoting if delimited and layout.quoting != usual["quoting"] else None,
        "data.files.columns": list(plan.columns) if delimited and not layout.header else None,
        "data.files.encoding": "utf-8" if layout.kind == "parquet" else layout.encoding.removesuffix("-sig"),
        "evaluate.behaviour": None,  # its templates speak of the classes of another task
        "train.metric": metric if metric in fitting else primary_metric(task).name,
    }
