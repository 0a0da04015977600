"""What all sections of the settings have in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]


class Section(BaseModel):
    """One section: frozen; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")
