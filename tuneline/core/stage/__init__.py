"""What stages share: their entry point, the tables and records between them, provenance, devices."""
