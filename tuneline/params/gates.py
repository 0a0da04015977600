"""Section ``evaluate``: what is measured, and on which rows."""

from typing import Annotated, Literal

from pydantic import Field

from tuneline.params.section import Section

Split = Literal["train", "validation", "test"]
Rate = Annotated[float, Field(ge=0, le=1)]


class EvaluateParams(Section):
    """``evaluate``."""

    split: Split = "test"
    """The reported split."""
    metrics: list[str] | None = None
    """``null``: the project's own metric, offline. Else names or paths for ``evaluate.load``."""
    f1: Literal["binary", "macro"] | None = None
    """``null``: binary with two classes, macro with more."""
    batch_size: Annotated[int, Field(ge=1)] = 64
    behaviour: Annotated[str, Field(pattern=r"^[\w-]+$")] | None = "tickets"
    """Tests of how the model behaves: ``conf/behaviour/NAME.yaml``. ``null``: none."""
