"""Experiments of DVC: where git has them, their validation scores, and what tells two apart."""
