"""Options of commands that promise how many answers are wrong."""

from typing import Annotated

import typer

RISK_HELP = (
    "Largest share of wrong answers that is promised; rows that are too unsure get none: docs/decide.md"
)
CERTAINTY_HELP = "Probability with which --risk holds"

Risk = Annotated[float | None, typer.Option(min=1e-4, max=0.5, help=RISK_HELP)]
Certainty = Annotated[float, typer.Option(min=0.5, max=0.9999, help=CERTAINTY_HELP)]
