"""Section ``evaluate``: the metrics and the split they are computed on."""

from typing import Annotated, Literal

from pydantic import Field

from tuneline.params.section import Section

Split = Literal["train", "validation", "test"]


class EvaluateParams(Section):
    """``evaluate``."""

    split: Split
    """The reported split."""
    metrics: list[str] | None
    """Names or paths of metrics for ``evaluate.load``. ``null``: the project's own metrics, which need no network."""
    f1: Literal["binary", "macro"] | None
    """Averaging of F1. ``null``: binary with two classes, macro with more."""
    batch_size: Annotated[int, Field(ge=1)]
    """Rows per batch."""
    behaviour: Annotated[str, Field(pattern=r"^[\w-]+$")] | None
    """Behavioural tests, from ``conf/behaviour/NAME.yaml``. ``null``: none."""
