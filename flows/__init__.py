"""Prefect flows that schedule the pipeline. They run its stages through ``dvc``: no import of ``stages`` or torch."""
