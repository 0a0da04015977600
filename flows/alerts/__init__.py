"""Alerts: what is silent, old or behind, and events that are repeated only every so many hours."""
