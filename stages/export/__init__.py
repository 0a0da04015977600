"""The stage ``export``: turns the trained classifier into ONNX models."""
