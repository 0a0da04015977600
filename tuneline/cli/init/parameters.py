"""The parameters that a plan gives: section ``data``, and the metric of its task."""

from typing import Any

from tuneline.cli.init.metric_choice import choose_metric, rare_class_last
from tuneline.cli.init.planning import Plan
from tuneline.params import Params
from tuneline.params.data import FilesParams
from tuneline.paths import SPLITS


def is_current(plan: Plan, params: Params) -> bool:
    """Return True if ``params.yaml`` is for this data already."""
    data = params.data
    decision = plan.decision
    now = (
        data.source,
        data.path,
        tuple(data.text_columns),
        data.label_column,
        data.task,
        data.label_sets,
    )
    planned = (
        "files",
        plan.placement.data_path,
        decision.text_columns,
        decision.label_column,
        decision.task,
        decision.sets,
    )
    return now == planned


def plan_params(plan: Plan, metric: str, current: bool) -> dict[str, Any]:
    """Return the parameters for a plan, by dotted key.

    Args:
        plan: What will be written.
        metric: ``train.metric`` now.
        current: True if the parameters are for this data already; then its metric, class names and behaviour
            tests stay.
    """
    splits = {split: plan.placement.specs.get(split, split) for split in SPLITS}
    division = None
    if plan.split is not None:
        division = plan.split.model_dump()

    # data
    values: dict[str, Any] = {
        "data.source": "files",
        "data.path": plan.placement.data_path,
        "data.name": None,
        "data.revision": None,
        "data.splits": splits,
        "data.split": division,
        "data.text_columns": list(plan.decision.text_columns),
        "data.label_column": plan.decision.label_column,
        "data.task": plan.decision.task,
        "data.label_sets": None,
    }
    if plan.decision.sets is not None:
        values["data.label_sets"] = plan.decision.sets.model_dump(exclude_none=True)
    values |= file_params(plan)
    if plan.left_out.share:
        values["data.bad_rows"] = "skip"
        values["data.max_bad_share"] = plan.max_bad_share
    if not current:
        # They name classes, columns or texts of the former data.
        values["data.label_names"] = rare_class_last(plan)
        values["data.as_of"] = None
        values["data.last_days"] = None
        values["evaluate.behaviour"] = None

    values["train.metric"] = choose_metric(plan, metric, current).name
    return values


def file_params(plan: Plan) -> dict[str, Any]:
    """Return the parameters in ``data.files``; ``None`` is the usual value for the suffix of the files."""
    usual = plan.layout.format.usual
    defaults = FilesParams()
    parameters: dict[str, Any] = {}
    for name, value in plan.layout.values().items():
        if name == "format":
            continue
        is_usual = value == getattr(usual, name)
        if is_usual:
            value = getattr(defaults, name)  # noqa: PLW2901
        elif isinstance(value, tuple):
            value = list(value)  # noqa: PLW2901
        parameters[f"data.files.{name}"] = value
    return parameters
