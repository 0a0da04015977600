"""A model whose answers are known: each of its words adds to the logits what the test says."""

from dataclasses import replace

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tuneline.onnx.session import OnnxClassifier


def planted(model, folder, weights):
    """Return a model whose logits are sums of what each of its words says, by the outputs of some words."""
    tokenizer = model.encoder.tokenizer
    embeddings = np.zeros((tokenizer.get_vocab_size(), model.task.outputs), np.float32)
    for word, values in weights.items():
        (token,) = tokenizer.encode(word, add_special_tokens=False).ids
        embeddings[token] = values
    nodes = [
        helper.make_node("Gather", ["embeddings", "input_ids"], ["values"]),
        helper.make_node("ReduceSum", ["values", "axes"], ["logits"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "planted",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["rows", "tokens"])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["rows", model.task.outputs])],
        [
            numpy_helper.from_array(embeddings, "embeddings"),
            numpy_helper.from_array(np.array([1]), "axes"),
        ],
    )
    file = folder / "planted.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    helper.set_model_props(made, model.classifier.metadata)
    onnx.save(made, file)
    task = model.task.with_decisions({"temperature": 1.0})
    return replace(model, classifier=OnnxClassifier(file, 1), task=task)
