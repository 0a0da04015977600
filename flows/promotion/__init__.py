"""From a run's model to production: measurements, the gate, the registry, rollback."""
