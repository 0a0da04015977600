"""From a run's model to production: the gate with its evidence, the registry, the way back."""
