"""What is done with probabilities: answers that cost least, and which may be given at all."""

CERTAINTY = 0.95
"""Default probability with which a promise holds."""
