"""Conditions of a promotion."""

from typing import Annotated, Literal

from pydantic import Field

from flows.settings.section import Section


class PromotionPolicy(Section):
    """Conditions under which a model replaces the one in production.

    Attributes:
        artifact: Name under ``artifacts:`` in dvc.yaml of what is registered.
        stage: Stage of the registry.
        metric: Metric to improve; ``None`` for accuracy, or Pearson's r for a regression.
        confidence: Confidence level of the interval and of McNemar's test.
        resamples: Number of bootstrap resamples.
        min_rows: Smallest number of rows of the reported split on which a decision is made.
        min_gain: The whole interval of the metric's difference must be above it.
        min_agreement: Smallest share of rows for which ``model.onnx`` and the trained model predict the same.
        max_abs_diff: Largest absolute difference of a logit between the two.
        max_megabytes: Largest size of ``model.onnx`` with its external data.
        max_latency_ms: Largest latency of one row in milliseconds, 95th percentile.
        take_over: What brings the result of a promoted run to ``branch``: nothing, the branch of a pull request, or a fast-forward.
        branch: The branch that results are taken over into.
        push_options: Options of the push of the pull request's branch (``git push -o``), which some hosts open the request for.
    """

    artifact: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*[a-z0-9]$")] = "onnx"
    stage: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*[a-z0-9]$")] = "production"
    metric: str | None = None
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    resamples: Annotated[int, Field(ge=200)] = 5000
    min_rows: Annotated[int, Field(ge=1)] = 100
    min_gain: float = 0.0
    min_agreement: Annotated[float, Field(ge=0, le=1)] = 0.999
    max_abs_diff: Annotated[float, Field(ge=0)] = 1e-3
    max_megabytes: Annotated[float, Field(gt=0)] = 1000
    max_latency_ms: Annotated[float, Field(gt=0)] = 250
    take_over: Literal["none", "pull_request", "fast_forward"] = "none"
    branch: Annotated[str, Field(pattern=r"^[\w][\w./-]*$")] = "main"
    push_options: list[str] = []

    def conditions(self) -> str:
        """Return what decisions depend on, as JSON: all but the take-over."""
        return self.model_dump_json(exclude={"take_over", "branch", "push_options"})
