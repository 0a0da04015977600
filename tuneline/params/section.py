"""Base class of the sections of ``params.yaml``, and types that several sections use."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Rate = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    """One section: frozen and strict. Unknown keys are errors, so that a misspelled key never leaves a default in place.

    The docstring below each key is its meaning in docs/parameters.md and ``tuneline explain``: unit, special values, what ``null`` does.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True)
