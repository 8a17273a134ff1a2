"""Foreign operators, wrong values, attributes and axes: typed errors that name the node."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from codl.errors import ModelError, UnsupportedError
from codl.frontend import load_graph
from tests.frontend.onnx_models import check_host, make_model, node, random_array

IMAGE = [1, 4, 6, 6]


def model(op_type: str, *, opset: int = 17, outputs: int = 1, inputs: Any = None, **parts: Any) -> Any:
    """Return a model of one node "n"; arrays among ``parts`` are its constant inputs, the rest attributes."""
    constants = {name: part for name, part in parts.items() if isinstance(part, np.ndarray)}
    attributes = {name: part for name, part in parts.items() if name not in constants}
    names = ["y", *(f"y{i}" for i in range(1, outputs))]
    only = node(op_type, ["x", *constants], names, name="n", **attributes)
    return make_model([only], inputs=inputs or {"x": IMAGE}, constants=constants, opset=opset)


def refusal(built: onnx.ModelProto, *, error: type[ModelError] = ModelError) -> str:
    """Return what loading says, having asserted whether it is one of unsupported models and its words."""
    with pytest.raises(ModelError) as caught:
        load_graph(built.SerializeToString())
    assert isinstance(caught.value, UnsupportedError) is (error is UnsupportedError)
    text = str(caught.value)
    assert all(
        line.startswith("model (bytes): ") and "got " in line and "expected " in line
        for line in text.splitlines()
    )
    return text


class TestOperatorSets:
    def test_refuses_an_opset_that_does_not_exist(self) -> None:
        assert "got opset 9999, expected " in refusal(model("Relu", opset=9999))

    def test_refuses_a_domain_that_is_not_imported(self) -> None:
        text = refusal(model("Blur", domain="com.example"))

        assert "node 'n' (com.example.Blur): got operator domain 'com.example' that the model" in text

    def test_names_a_domain_that_nobody_knows(self) -> None:
        built = model("Blur", domain="com.example")
        built.opset_import.append(helper.make_opsetid("com.example", 1))

        text = refusal(built, error=UnsupportedError)

        assert "got operator domain 'com.example', expected ONNX's own" in text

    def test_leaves_an_operator_of_onnx_runtime_alone_to_the_host(self) -> None:
        built = model("QuickGelu", domain="com.microsoft")
        built.opset_import.append(helper.make_opsetid("com.microsoft", 1))

        check_host(built, reason="no kernel for com.microsoft.QuickGelu")

    def test_accepts_a_function_of_the_models_own_domain(self) -> None:
        built = model("Twice", domain="local")
        built.opset_import.append(helper.make_opsetid("local", 1))
        body = [node("Add", ["a", "a"], ["b"])]
        opsets = [helper.make_opsetid("", 17)]
        built.functions.append(helper.make_function("local", "Twice", ["a"], ["b"], body, opsets))

        assert [n.kind for n in load_graph(built.SerializeToString()).nodes] == ["Binary"]

    @pytest.mark.parametrize(("op_type", "opset"), [("Blur", 17), ("HardSwish", 13), ("Upsample", 10)])
    def test_names_an_operator_that_the_opset_does_not_have(self, op_type: str, opset: int) -> None:
        text = refusal(model(op_type, opset=opset))

        assert f"node 'n' ({op_type}): got operator {op_type}, expected one that opset {opset} has" in text

    @pytest.mark.parametrize("op_type", ["LayerNormalization", "ThresholdedRelu"])
    def test_leaves_a_model_with_what_onnx_runtime_knew_earlier_to_it(self, op_type: str) -> None:
        is_norm = op_type == "LayerNormalization"
        built = model(op_type, opset=9, w=np.ones(4, np.float32)) if is_norm else model(op_type, opset=9)
        graph = load_graph(built.SerializeToString())

        assert [part.operators for part in graph.host_models.values()] == [(op_type,)]


class TestOrder:
    def test_nodes_may_come_in_any_order(self) -> None:
        built = model("Relu")
        built.graph.node.insert(0, node("Tanh", ["y"], ["late"]))
        built.graph.output[0].name = "late"

        assert [n.name for n in load_graph(built.SerializeToString()).nodes] == ["n", "late"]


class TestInitializers:
    def built(self) -> Any:
        return model("Conv", w=random_array(4, 4, 3, 3))

    @pytest.mark.parametrize("size", [0, 100, 572, 575, 580, 5760])
    def test_refuses_bytes_of_another_length(self, size: int) -> None:
        built = self.built()
        tensor = built.graph.initializer[0]
        tensor.raw_data = (tensor.raw_data * 10)[:size]

        text = refusal(built)

        assert f"initializer 'w': got {size} bytes, expected 576 for shape [4, 4, 3, 3]" in text

    @pytest.mark.parametrize("count", [0, 143, 145])
    def test_refuses_another_number_of_values(self, count: int) -> None:
        built = self.built()
        tensor = built.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.float_data.extend([0.5] * count)

        assert f"initializer 'w': got {count} values, expected 144" in refusal(built)

    def test_refuses_values_given_twice(self) -> None:
        built = self.built()
        built.graph.initializer[0].float_data.extend([0.5] * 144)

        assert "got values both as bytes and in float_data, expected one of them" in refusal(built)

    def test_accepts_values_that_are_no_bytes(self) -> None:
        built = self.built()
        tensor = built.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.float_data.extend([0.5] * 144)

        assert (load_graph(built.SerializeToString()).constants["w"] == 0.5).all()

    @pytest.mark.parametrize(("kind", "got"), [(0, "undefined"), (99, "unknown type 99")])
    def test_refuses_an_element_type_that_is_none(self, kind: int, got: str) -> None:
        built = self.built()
        built.graph.initializer[0].data_type = kind

        assert f"initializer 'w': got {got}, expected an element type of ONNX" in refusal(built)

    def test_refuses_negative_dimensions(self) -> None:
        built = self.built()
        built.graph.initializer[0].dims[0] = -4

        assert "initializer 'w': got dimensions [-4, 4, 3, 3]" in refusal(built)

    def test_refuses_an_initializer_given_twice(self) -> None:
        built = self.built()
        built.graph.initializer.append(built.graph.initializer[0])

        assert "tensor 'w': got 2 producers, expected 1" in refusal(built)

    def test_refuses_an_input_given_twice(self) -> None:
        built = self.built()
        built.graph.input.append(built.graph.input[0])

        assert "tensor 'x': got 2 producers, expected 1" in refusal(built)

    def test_names_the_reader_of_an_initializer_without_name(self) -> None:
        built = self.built()
        built.graph.initializer[0].name = ""

        assert "node 'n' (Conv): got input 'w' that nothing provides" in refusal(built)

    def test_refuses_a_shape_of_another_type(self) -> None:
        refusal(model("Reshape", shape=np.array([1.0, -1.0], np.float32)))


SHAPE = np.array


def cut(built: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with a Slice behind it: shape inference aborts the process on negative lengths."""
    names = {"starts": 0, "ends": 3, "axes": 2}
    built.graph.initializer.extend(numpy_helper.from_array(np.array([v]), n) for n, v in names.items())
    built.graph.node.append(node("Slice", ["y", *names], ["z"], name="slice"))
    built.graph.output[0].name = "z"
    return built


WRONG: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "float for integer": (
        lambda: model("Concat", axis=1.0),
        "got attribute axis of type FLOAT, expected",
    ),
    "integer for float": (
        lambda: model("LeakyRelu", alpha=1),
        "attribute alpha of type INT, expected FLOAT",
    ),
    "text for float": (lambda: model("Elu", alpha="1"), "got attribute alpha of type STRING, expected FLOAT"),
    "integer for list": (lambda: model("Transpose", perm=1), "got attribute perm of type INT, expected INTS"),
    "unknown attribute": (lambda: model("Relu", slope=0.1), "got attribute slope, expected none"),
    "misspelled attribute": (lambda: model("Elu", Alpha=0.1), "got attribute Alpha, expected one of alpha"),
    "missing attribute": (lambda: model("LRN"), "got no attribute size, expected a value for it"),
    "missing input": (lambda: model("Conv"), "got 1 inputs, expected 2 to 3"),
    "superfluous input": (lambda: model("Relu", w=random_array(4)), "got 2 inputs, expected 1"),
    "superfluous output": (lambda: model("Relu", outputs=2), "got 2 outputs, expected 1"),
    "concat axis": (
        lambda: model("Concat", axis=4),
        "got axis 4 of an input of shape [1, 4, 6, 6]",
    ),
    "negative concat axis": (lambda: model("Concat", axis=-5), "got axis -5 of an input"),
    "softmax axis": (lambda: model("Softmax", axis=4), "got axis 4 of an input"),
    "old softmax axis": (lambda: model("Softmax", axis=4, opset=9), "got axis 4 of an input"),
    "flatten axis": (lambda: model("Flatten", axis=5), "got axis 5 of an input"),
    "split axis": (lambda: model("Split", axis=4, outputs=2), "got axis 4 of an input"),
    "mean axes": (lambda: model("ReduceMean", axes=[4]), "got axes [4] of an input"),
    "mean axes twice": (
        lambda: model("ReduceMean", axes=[1, -3]),
        "[1, -3], expected each axis once",
    ),
    "mean axes as input": (lambda: model("ReduceMean", axes=SHAPE([-7]), opset=18), "axis"),
    "squeeze axes": (lambda: model("Squeeze", axes=[9], opset=11), "got axes [9] of an input"),
    "squeeze axes as input": (lambda: model("Squeeze", axes=SHAPE([9])), "axis"),
    "squeeze of a long axis": (lambda: model("Squeeze", axes=SHAPE([1])), "1"),
    "unsqueeze axes": (lambda: model("Unsqueeze", axes=SHAPE([9])), "axis"),
    "transpose axes": (
        lambda: model("Transpose", perm=[0, 1, 2, 4]),
        "got perm [0, 1, 2, 4] of an input",
    ),
    "transpose of one axis twice": (lambda: model("Transpose", perm=[0, 1, 1, 2]), "expected each axis once"),
    "transpose of fewer axes": (lambda: model("Transpose", perm=[1, 0]), "expected each axis once"),
    "slice axes": (
        lambda: model("Slice", starts=[0], ends=[1], axes=[4], opset=9),
        "got axes [4] of an input of shape [1, 4, 6, 6], expected axes from -4 to 3",
    ),
    "slice axes twice": (
        lambda: model("Slice", starts=[0, 0], ends=[1, 1], axes=[2, 2], opset=9),
        "expected each axis once",
    ),
    "slice without as many ends": (
        lambda: model("Slice", starts=[0, 1], ends=[1], opset=9),
        "got 2 starts, 1 ends and 2 axes, expected as many of each",
    ),
    "slice axes as input": (lambda: model("Slice", s=SHAPE([0]), e=SHAPE([1]), a=SHAPE([4])), "axis"),
    "slice without a step": (
        lambda: model("Slice", s=SHAPE([0]), e=SHAPE([1]), a=SHAPE([1]), t=SHAPE([0])),
        "step",
    ),
    "split that does not add up": (lambda: model("Split", axis=1, outputs=2, s=SHAPE([1, 2])), "split"),
    "split with a negative part": (
        lambda: model("Split", axis=1, outputs=2, s=SHAPE([5, -1])),
        "got output 'y1' of shape [1, -1, 6, 6], expected lengths of 0 or more",
    ),
    "split into more than there are outputs": (
        lambda: model("Split", axis=1, outputs=2, num_outputs=3, opset=18),
        "got num_outputs 3, expected 2",
    ),
    "pad that crops too much before a slice": (
        lambda: cut(model("Pad", pads=SHAPE([0, 0, -9, 0, 0, 0, 0, 0]))),
        "got output 'y' of shape [1, 4, -3, 6], expected lengths of 0 or more",
    ),
    "transposed padding that leaves nothing before a slice": (
        lambda: cut(model("ConvTranspose", w=random_array(4, 2, 3, 3), pads=[9, 0, 9, 0])),
        "got output 'y' of shape [1, 2, -10, 8], expected lengths of 0 or more",
    ),
    "pad of fewer axes": (lambda: model("Pad", pads=SHAPE([1, 1])), "ads"),
    "pad axes": (
        lambda: model("Pad", p=SHAPE([1, 1]), v=np.zeros((), np.float32), a=SHAPE([7]), opset=18),
        "",
    ),
    "resize by nothing": (lambda: model("Upsample", scales=[1.0, 1.0, 0.0, 1.0], opset=7), ""),
    "resize of fewer axes": (lambda: model("Upsample", scales=[2.0, 2.0], opset=7), "scales"),
    "block of 0": (lambda: model("DepthToSpace", blocksize=0), "got blocksize 0, expected"),
    "block that divides nothing": (lambda: model("DepthToSpace", blocksize=3), "got blocksize 3 over input"),
    "block order": (
        lambda: model("DepthToSpace", blocksize=2, mode="RDC"),
        "mode RDC, expected DCR or CRD",
    ),
    "even response norm": (lambda: model("LRN", size=4), "got size 4, expected an odd number"),
    "instance norm": (
        lambda: model("InstanceNormalization", s=random_array(3), t=random_array(4)),
        "got scale of shape [3], expected [4]",
    ),
    "slope that does not broadcast": (
        lambda: model("PRelu", s=random_array(4)),
        "got slope of shape [4] for input [1, 4, 6, 6], expected one that broadcasts",
    ),
    "slope that grows the input": (lambda: model("PRelu", s=random_array(3, 1, 1, 1)), "got slope of shape"),
    "transposed group 0": (
        lambda: model("ConvTranspose", w=random_array(4, 2, 3, 3), group=0),
        "got group 0, expected 1 or more",
    ),
    "transposed stride 0": (
        lambda: model("ConvTranspose", w=random_array(4, 2, 3, 3), strides=[0, 1]),
        "got strides [0, 1], expected 2 values of 1 or more",
    ),
    "transposed channels": (
        lambda: model("ConvTranspose", w=random_array(3, 2, 3, 3)),
        "got weight [3, 2, 3, 3] in 1 groups over input [1, 4, 6, 6], expected weight [4, 2, 3, 3]",
    ),
    "transposed groups": (lambda: model("ConvTranspose", w=random_array(4, 2, 3, 3), group=3), "in 3 groups"),
    "transposed bias": (
        lambda: model("ConvTranspose", w=random_array(4, 2, 3, 3), b=random_array(3)),
        "got bias [3], expected [2]",
    ),
    "transposed to less": (
        lambda: model("ConvTranspose", w=random_array(4, 2, 3, 3), output_shape=[2, 9]),
        "got output_shape [2, 9], expected between the input's [6, 6] and [8, 8]",
    ),
    "transposed to more": (
        lambda: model("ConvTranspose", w=random_array(4, 2, 3, 3), output_shape=[9, 8]),
        "got output_shape [9, 8], expected between the input's [6, 6] and [8, 8]",
    ),
    "transposed with much padding": (
        lambda: model("ConvTranspose", w=random_array(4, 2, 3, 3), strides=[2, 2], output_padding=[1, 2]),
        "got output_padding [1, 2], expected less than strides [2, 2]",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_names_the_node_and_what_is_wrong_with_it(case: str) -> None:
    build, expected = WRONG[case]

    text = refusal(build())

    assert expected in text


def test_refuses_an_attribute_given_twice() -> None:
    built = model("LeakyRelu", alpha=0.1)
    built.graph.node[0].attribute.append(helper.make_attribute("alpha", 0.2))

    assert "node 'n' (LeakyRelu): got 2 attributes alpha, expected 1" in refusal(built)


def test_names_the_input_that_a_node_leaves_out() -> None:
    norm = node("BatchNormalization", ["x", "", "c", "c", "c"], ["y"], name="n")
    built = make_model([norm], inputs={"x": IMAGE}, constants={"c": random_array(4)})

    assert "node 'n' (BatchNormalization): got no input scale, expected a tensor" in refusal(built)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.DOUBLE])
def test_refuses_weights_of_another_type(kind: int) -> None:
    built = model("Add", c=random_array(6).astype(helper.tensor_dtype_to_np_dtype(kind)))

    refusal(built)
