"""The metrics: their table, their scores, and functions of the user."""
