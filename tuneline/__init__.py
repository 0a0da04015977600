"""The command people type: ``tuneline``. Starts without torch."""
