"""Experiments of DVC: sweeps, their validation scores, and two models on the same rows."""
