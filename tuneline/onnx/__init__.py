"""Exported models at work, on ONNX Runtime and NumPy alone: nothing in here imports torch or transformers."""
