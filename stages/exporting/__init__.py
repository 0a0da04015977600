"""How a trained classifier becomes ONNX models: the graph, its 8-bit and 16-bit versions, and what each says of itself."""
