"""Prefect flows that schedule the line. They run stages through ``dvc`` alone: no import of ``stages`` or torch."""
