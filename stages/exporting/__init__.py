"""How a trained classifier becomes ONNX models: the graph, what it says of itself, and its 8-bit and 16-bit versions."""
