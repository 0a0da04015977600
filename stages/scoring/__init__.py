"""How predictions are scored: formulas, the metric module that the evaluate library loads, curves."""
