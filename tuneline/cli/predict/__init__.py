"""``tuneline predict``: the exported model on files of any size. ONNX Runtime and tokenizers only: torch would take seconds to start."""
