import onnx
from onnx import TensorProto, helper

from stages.export.cleaning import clean


def branch(name):
    node = helper.make_node("Identity", ["x"], [f"{name}_out"], doc_string="/home/someone/model.py")
    node.metadata_props.add(key="stack_trace", value="/home/someone/model.py")
    inner = helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, ["batch"])
    return helper.make_graph([node], name, [], [inner], value_info=[inner])


def model_with_branches():
    chosen = helper.make_node("If", ["condition"], ["y"], then_branch=branch("then"), else_branch=branch("otherwise"))
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch"]),
        helper.make_tensor_value_info("condition", TensorProto.BOOL, []),
        helper.make_tensor_value_info("unread", TensorProto.FLOAT, ["batch"]),
    ]
    length = helper.make_node("Shape", ["asked_for_its_shape"], ["length"])
    inputs.append(helper.make_tensor_value_info("asked_for_its_shape", TensorProto.FLOAT, ["batch"]))
    outputs = [
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch"]),
        helper.make_tensor_value_info("length", TensorProto.INT64, [1]),
    ]
    graph = helper.make_graph([chosen, length], "/home/someone", inputs, outputs)
    model = helper.make_model(graph, producer_name="someone", producer_version="2.13.0+cpu", doc_string="/home/someone")
    model.metadata_props.add(key="where", value="/home/someone")
    return model


def test_no_trace_is_left_at_any_depth():
    cleaned = clean(model_with_branches())
    assert b"/home/someone" not in cleaned.SerializeToString()
    assert b"2.13.0" not in cleaned.SerializeToString()
    onnx.checker.check_model(cleaned)


def test_inferred_shapes_go_at_any_depth():
    cleaned = clean(model_with_branches())
    branches = [attribute.g for attribute in cleaned.graph.node[0].attribute]
    assert [len(graph.value_info) for graph in (cleaned.graph, *branches)] == [0, 0, 0]


def test_an_input_asked_only_for_its_shape_goes_and_the_first_answers_for_it():
    cleaned = clean(model_with_branches())
    assert list(cleaned.graph.node[1].input) == ["x"]
    onnx.checker.check_model(cleaned)


def test_an_input_read_only_inside_a_branch_stays_and_one_read_nowhere_goes():
    assert [given.name for given in clean(model_with_branches()).graph.input] == ["x", "condition"]
