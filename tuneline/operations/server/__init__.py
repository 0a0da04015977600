"""Prefect's side of the flows: server, workers, deployments, automations."""
