"""Options of commands that promise how many answers are wrong."""

from typing import Annotated

import typer

RISK_HELP = (
    "Largest share of wrong answers that is promised; rows that are too unsure get none: docs/decide.md"
)
CLASS_RISK_HELP = "The same for the answers of one class; repeatable"
CERTAINTY_HELP = "Probability with which --risk and --class-risk hold"

Risk = Annotated[float | None, typer.Option(min=1e-4, max=0.5, help=RISK_HELP)]
ClassRisk = Annotated[
    list[str] | None, typer.Option("--class-risk", metavar="NAME=RISK", help=CLASS_RISK_HELP)
]
Certainty = Annotated[float, typer.Option(min=0.5, max=0.9999, help=CERTAINTY_HELP)]
