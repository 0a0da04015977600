"""The parameters that a plan sets, and their change in ``params.yaml``, which keeps its comments, order and all other values."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.representer import RoundTripRepresenter

from tuneline.cli.init.planning import Plan
from tuneline.files import replace_file
from tuneline.metrics import Task, metrics_for, primary_metric
from tuneline.params.loading import parse_params, read_yaml
from tuneline.paths import SPLITS

Changes = Mapping[str, Any]
"""New values by dotted key."""


class _Representer(RoundTripRepresenter):
    """Representer that writes ``None`` as ``null``; the library would write nothing."""

    def represent_none(self, data: None) -> Any:  # noqa: ARG002 - the library's signature
        """Return a ``null``."""
        return self.represent_scalar("tag:yaml.org,2002:null", "null")

    def represent_float(self, data: float) -> Any:
        """Return a number with a point: 5e-05 would be a text in YAML 1.1, which many libraries read."""
        mantissa, exponent, power = repr(data).partition("e")
        point = "" if "." in mantissa else ".0"
        return self.represent_scalar("tag:yaml.org,2002:float", f"{mantissa}{point}{exponent}{power.replace('-0', '-')}")


_Representer.add_representer(type(None), _Representer.represent_none)
_Representer.add_representer(float, _Representer.represent_float)


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
    drop_incomplete = {"data.drop_incomplete": True} if plan.incomplete else {}
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
        **drop_incomplete,
        **of_other_data,
        "train.metric": metric if metric in suitable else primary_metric(task).name,
    }


def differing(path: Path, required: Changes) -> dict[str, tuple[Any, Any]]:
    """Return the required values that the file does not have yet: (old, new) by dotted key."""
    values = read_yaml(path)
    current = {key: _get(values, key) for key in required}
    return {key: (current[key], value) for key, value in required.items() if current[key] != value}


def changed(path: Path, required: Changes) -> str:
    """Return the text of the file with the required values in it.

    Raises:
        tuneline.errors.ParamsError: The file is missing or not YAML, or the result is not valid.
    """
    read_yaml(path)  # its errors are clearer than those of the library
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.preserve_quotes = True
    yaml.width = 1000
    values = yaml.load(path)
    for key, (_, value) in differing(path, required).items():
        *sections, last = key.split(".")
        section = values
        for name in sections:
            section = section[name]
        section[last] = _inline(value)
    text = io.StringIO()
    yaml.dump(values, text)
    parse_params(YAML(typ="safe", pure=True).load(text.getvalue()), path)
    return text.getvalue()


def write(path: Path, text: str) -> None:
    """Replace the file atomically."""
    with replace_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def _get(values: Any, key: str) -> Any:
    for name in key.split("."):
        values = values.get(name) if isinstance(values, dict) else None
    return values


def _inline(value: Any) -> Any:
    if not isinstance(value, (list, dict)):
        return value
    collection = CommentedMap(value) if isinstance(value, dict) else CommentedSeq(value)
    collection.fa.set_flow_style()
    return collection
