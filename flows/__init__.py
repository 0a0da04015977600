"""Prefect flows that schedule the pipeline. They run its stages through ``dvc``: no import of ``stages`` or torch."""

import tuneline as tuneline  # turns telemetry off, before a flow imports Prefect
