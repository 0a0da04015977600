"""What repeated, similar and drifting texts are: the measurements of the checks."""
