"""How good a model is: metrics with intervals, evaluation by slice, decisions by costs."""
