"""Flow ``score``."""

from prefect import flow


@flow(name="score", persist_result=False)
def score() -> None:
    """Scores."""
