"""Exported models: inference with ONNX Runtime and NumPy, without torch and transformers, and their records."""
