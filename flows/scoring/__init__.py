"""Scoring of new files with the model in production: inbox and outbox, the deployed model, drift."""
