"""Server, workers, deployments and automations: what Prefect needs to run the flows."""
