"""The stage ``export``: convert the trained classifier to ONNX models."""
