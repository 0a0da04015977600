"""The base of every section of ``params.yaml``."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """One section: frozen, and refusing keys that it does not know, so that a typo never becomes a default."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
