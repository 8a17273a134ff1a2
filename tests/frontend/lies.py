"""Small models of every translated operator, and lies told about their shapes: hostile files of one kind."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from codl.ir.ops import FUNCTIONS
from tests.frontend.onnx_models import make_model, node, random_array

LENGTHS = (0, 1, 2, 3, 4, 5, 7, 8, 64, 100, 1_000_000)
INTEGERS = (-(2**62), -3, -1, 0, 1, 2, 3, 5, 100, 1_000_000, 2**62)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One operator as it is meant."""

    x: tuple[int, ...] = (2, 4, 6, 6)
    constants: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] | None = None
    """All constants in their order by default."""
    outputs: tuple[str, ...] = ("t",)
    opset: int = 17
    ids: tuple[int, ...] | None = None
    """Shape of an input `ids` of int64 that the operator reads in place of x."""

    def build(self, op_type: str) -> onnx.ModelProto:
        """Return x -> Relu -> operator -> Relu -> y, so that what the operator writes is an intermediate."""
        inputs = self.inputs or ("x", *self.constants)
        nodes = [
            node(op_type, list(inputs), list(self.outputs), name="liar", **self.attributes),
            node("Relu", [self.outputs[-1]], ["y"], name="after"),
        ]
        constants = {name: np.asarray(value) for name, value in self.constants.items()}
        if self.ids is not None:
            given, types = {"ids": self.ids}, {"ids": TensorProto.INT64}
            return make_model(nodes, inputs=given, constants=constants, opset=self.opset, types=types)
        nodes.insert(0, node("Relu", ["given"], ["x"], name="before"))
        return make_model(nodes, inputs={"given": self.x}, constants=constants, opset=self.opset)


def floats(*shape: int) -> Any:
    return np.abs(random_array(*shape)) + 0.1


def integers(*values: int) -> Any:
    return np.array(values, np.int64)


CASES: dict[str, tuple[Case, ...]] = {
    **{function.operator: (Case(opset=max(17, function.opset)),) for function in FUNCTIONS.values()},
    "Abs": (Case(),),
    "Add": (Case(constants={"b": floats(4, 1, 1)}), Case(constants={"b": floats(1, 4, 6, 6)})),
    "AveragePool": (
        Case(attributes={"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}),
    ),
    "BatchNormalization": (Case(constants={name: floats(4) for name in ("s", "b", "m", "v")}),),
    "Clip": (Case(constants={"low": np.float32(0.2), "high": np.float32(0.8)}),),
    "Concat": (Case(constants={"b": floats(2, 3, 6, 6)}, attributes={"axis": 1}),),
    "Conv": (
        Case(constants={"w": floats(8, 2, 3, 3), "b": floats(8)}, attributes={"group": 2, "pads": [1] * 4}),
        Case(constants={"w": floats(8, 4, 3, 3)}, attributes={"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ),
    "ConvTranspose": (
        Case(
            constants={"w": floats(4, 3, 3, 3), "b": floats(3)},
            attributes={"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]},
        ),
        Case(constants={"w": floats(4, 3, 2, 2)}, attributes={"output_shape": [12, 12], "strides": [2, 2]}),
    ),
    "DepthToSpace": (Case(attributes={"blocksize": 2}),),
    "Div": (Case(constants={"b": floats(1)}),),
    "Dropout": (Case(constants={"training": np.array(False)}, inputs=("x", "", "training")),),
    "Expand": (Case(x=(4, 1, 6), constants={"shape": integers(2, 4, 6, 6)}),),
    "Flatten": (Case(attributes={"axis": 2}),),
    "Gemm": (
        Case(x=(3, 5), constants={"b": floats(4, 5), "c": floats(4)}, attributes={"transB": 1, "beta": 2.0}),
        Case(x=(3, 5), constants={"b": floats(5, 4), "c": floats(3, 1)}, attributes={"alpha": 0.5}),
    ),
    "GlobalAveragePool": (Case(),),
    "GlobalMaxPool": (Case(),),
    "InstanceNormalization": (Case(constants={"s": floats(4), "b": floats(4)}),),
    "LRN": (Case(attributes={"size": 3}),),
    "LayerNormalization": (
        Case(constants={"s": floats(6), "b": floats(6)}),
        Case(constants={"s": floats(6, 6)}, attributes={"axis": 2}),
    ),
    "MatMul": (Case(constants={"b": floats(6, 3)}), Case(x=(2, 6), constants={"b": floats(6)})),
    "MaxPool": (Case(attributes={"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),),
    "Mul": (Case(constants={"b": floats(6)}),),
    "PRelu": (Case(constants={"slope": floats(4, 1, 1)}),),
    "Pad": (
        Case(constants={"pads": integers(0, 0, 1, 2, 0, 0, 2, 1), "v": np.float32(0.5)}),
        Case(constants={"pads": integers(0, 0, 1, 2, 0, 0, 2, 1)}, attributes={"mode": "reflect"}),
    ),
    **dict.fromkeys(
        ("ReduceL2", "ReduceSumSquare"),
        (Case(attributes={"axes": [2, 3]}), Case(attributes={"axes": [1], "keepdims": 0})),
    ),
    "ReduceSum": (Case(constants={"axes": integers(2, 3)}), Case(attributes={"keepdims": 0})),
    "Neg": (Case(),),
    "Pow": (Case(constants={"exponent": np.float32(2)}), Case(constants={"exponent": np.float32(0.5)})),
    "Reciprocal": (Case(),),
    "ReduceMean": (Case(attributes={"axes": [1], "keepdims": 0}),),
    "Reshape": (
        Case(constants={"shape": integers(0, -1, 12)}),
        Case(constants={"shape": integers(2, 16, 3, 3)}),
        Case(x=(1, 4, 8, 8), constants={"shape": integers(1, 4, 64)}),
    ),
    "Resize": (
        Case(
            constants={"roi": floats(0), "scales": np.array([1, 1, 2, 1.5], np.float32)},
            attributes={"mode": "linear"},
        ),
        Case(constants={"sizes": integers(2, 4, 9, 12)}, inputs=("x", "", "", "sizes")),
    ),
    "Gather": (
        Case(constants={"i": integers(2)}, attributes={"axis": 1}),
        Case(constants={"i": integers(0, 2)}, attributes={"axis": 2}),
        Case(x=(4, 6, 6), constants={"i": np.array([[0, 3], [1, 4], [2, 5]])}, attributes={"axis": 2}),
        Case(ids=(2, 3), constants={"table": floats(9, 4)}, inputs=("table", "ids")),
    ),
    "Slice": (
        Case(
            constants={
                "starts": integers(1, 5),
                "ends": integers(3, 0),
                "axes": integers(1, 3),
                "steps": integers(1, -2),
            }
        ),
    ),
    "Softmax": (Case(), Case(opset=11, attributes={"axis": 2})),
    "SpaceToDepth": (Case(attributes={"blocksize": 2}),),
    "Split": (Case(constants={"split": integers(1, 3)}, attributes={"axis": 1}, outputs=("s", "t")),),
    "Squeeze": (Case(x=(1, 4, 1, 6), constants={"axes": integers(0, 2)}),),
    "Sub": (Case(constants={"b": floats(2, 1, 6, 1)}),),
    "Sum": (Case(constants={"b": floats(4, 1, 1), "c": floats(6)}),),
    "Transpose": (Case(attributes={"perm": [0, 2, 3, 1]}),),
    "Unsqueeze": (Case(x=(4, 6), constants={"axes": integers(0, 3)}),),
    "Upsample": (Case(opset=9, constants={"scales": np.array([1, 1, 2, 2], np.float32)}),),
}
"""Translated operator -> how it is meant, in one or more ways."""


def tell_value_info(model: onnx.ModelProto, rng: random.Random) -> None:
    """State a wrong shape of an intermediate."""
    name = rng.choice([output for one in model.graph.node[:-1] for output in one.output])
    shape = [rng.choice(LENGTHS) for _ in range(rng.randint(0, 5))]
    model.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))


def tell_output(model: onnx.ModelProto, rng: random.Random) -> None:
    """Declare a wrong shape of the output."""
    shape = [rng.choice(LENGTHS) for _ in range(rng.randint(0, 5))]
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, shape))


def change_input(model: onnx.ModelProto, rng: random.Random) -> None:
    """Declare an input that does not fit the operator."""
    dims = list(model.graph.input[0].type.tensor_type.shape.dim)
    rng.choice(dims).dim_value = rng.choice([1, 2, 3, 5, 7, 12])


def change_constant_shape(model: onnx.ModelProto, rng: random.Random) -> None:
    """Give a constant another shape, with as many values as it asks for."""
    if model.graph.initializer:
        tensor = rng.choice(model.graph.initializer)
        value = numpy_helper.to_array(tensor)
        shape = list(value.shape)
        place = rng.randrange(len(shape) + 1)
        match rng.choice(["insert", "remove", "length", "length"]):
            case "insert":
                shape.insert(place, rng.choice([1, 2]))
            case "remove" if shape:
                shape.pop(place - 1)
            case _ if shape:
                shape[place - 1] = rng.choice([0, 1, 2, 3, 5, 9])
        tensor.CopyFrom(numpy_helper.from_array(np.resize(value, shape), tensor.name))


def change_dims(model: onnx.ModelProto, rng: random.Random) -> None:
    """State dimensions of a constant that its values do not fill."""
    if model.graph.initializer:
        tensor = rng.choice(model.graph.initializer)
        dims = [*tensor.dims, 1][: max(1, len(tensor.dims))]
        dims[rng.randrange(len(dims))] = rng.choice([-1, 0, 1, 2, 9, 2**40])
        tensor.ClearField("dims")
        tensor.dims.extend(dims)


def change_integer(model: onnx.ModelProto, rng: random.Random) -> None:
    """Change a number among constants of shapes, axes and the like, or among attributes."""
    tensors = [t for t in model.graph.initializer if t.data_type == TensorProto.INT64 and t.dims[0]]
    attributes = [a for one in model.graph.node for a in one.attribute if a.type in (2, 7)]
    if not tensors and not attributes:
        return
    chosen = rng.choice([*tensors, *attributes])
    if isinstance(chosen, onnx.TensorProto):
        value = numpy_helper.to_array(chosen).copy()
        value[rng.randrange(len(value))] = rng.choice(INTEGERS)
        chosen.CopyFrom(numpy_helper.from_array(value, chosen.name))
    elif chosen.type == onnx.AttributeProto.INT:
        chosen.i = rng.choice(INTEGERS)
    elif rng.random() < 0.5:
        chosen.ints[rng.randrange(len(chosen.ints))] = rng.choice(INTEGERS)
    else:
        chosen.ints.append(rng.choice(INTEGERS))


def change_float(model: onnx.ModelProto, rng: random.Random) -> None:
    """Put a strange number among float constants."""
    tensors = [t for t in model.graph.initializer if t.data_type == TensorProto.FLOAT and 0 not in t.dims]
    if tensors:
        chosen = rng.choice(tensors)
        value = numpy_helper.to_array(chosen).copy()
        value.reshape(-1)[-1] = rng.choice([0.0, -1.0, 1e30, -1e30, 1e-30, np.inf, np.nan])
        chosen.CopyFrom(numpy_helper.from_array(value, chosen.name))


LIES: dict[str, Callable[[onnx.ModelProto, random.Random], None]] = {
    "value info": tell_value_info,
    "output": tell_output,
    "input": change_input,
    "constant": change_constant_shape,
    "dims": change_dims,
    "integer": change_integer,
    "float": change_float,
}
