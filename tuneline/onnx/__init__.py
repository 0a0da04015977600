"""Inference of exported models with ONNX Runtime and NumPy. Does not import torch or transformers."""
