"""How long flow ``clean`` and Prefect's server keep what runs leave behind."""

from typing import Annotated

from pydantic import Field

from flows.settings.section import Count, Section

Days = Annotated[float, Field(ge=0)]


class Retention(Section):
    """What is kept, and how long; ``None`` keeps for ever.

    Attributes:
        branch_days: Days since a branch ``runs/*`` was made, or since a run last came to the same result.
        checkouts: Number of checkouts of failed runs.
        checkout_days: Days since such a run ended.
        checkpoint_days: The same, for its checkpoints.
        models: Number of fetched models.
        cache_days: Days since an object of DVC's cache that nothing names was made.
        cache_wait_minutes: Minutes to wait for the end of runs, which use the cache.
        own_cache: Also collect a cache outside of the repository; no other clone may use it.
        remote: Also collect the default DVC remote; no other clone may use it.
        scored_days: Days since a file was scored; the archived input goes with the last of its results.
        refused_days: Days since a file or batch was refused.
        prefect_days: Days since a run of Prefect ended, with its logs and artifacts.
    """

    branch_days: Days | None = 90
    checkouts: Count | None = 3
    checkout_days: Days | None = 30
    checkpoint_days: Days | None = 14
    models: Annotated[int, Field(ge=1)] | None = 3
    cache_days: Days | None = 14
    cache_wait_minutes: Annotated[float, Field(ge=0)] = 360
    own_cache: bool = False
    remote: bool = False
    scored_days: Days | None = None
    refused_days: Days | None = 90
    prefect_days: Annotated[float, Field(ge=1)] | None = 90
