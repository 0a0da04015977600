"""Experiments of DVC: their validation scores, and two models on the same rows."""
