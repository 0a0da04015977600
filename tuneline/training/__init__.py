"""The training of a classifier: loop, order of examples, losses, exact resume, devices."""
