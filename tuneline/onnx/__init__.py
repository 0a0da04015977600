"""Exported models and their records: inference with ONNX Runtime, without torch and transformers."""
