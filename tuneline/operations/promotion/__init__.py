"""From a run's model to production: measurements, the gate and how often it is wrong, the registry."""
