"""Prefect flows that schedule the line. They know it through ``dvc`` alone: no import of ``stages``, ``tuneline`` or torch."""
