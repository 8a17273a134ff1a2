"""How a random node is added of operators that have no kernel, of many types; then of branches and loops."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.hostile.image_operators import Add, spatial
from tests.hostile.kernel_operators import (
    ADDS,
    along_axis,
    binary,
    matmul,
    partner,
    pointwise,
    reduce,
    total,
)
from tests.hostile.sketch import Sketch, describe

TYPES = (np.float64, np.float16, np.int64, np.int32, np.uint8, np.bool_, np.float32)


def cast(sketch: Sketch) -> Any:
    """Add a cast to another type, a function of it, and mostly a cast back."""
    kind = np.dtype(sketch.choose(TYPES))
    y = sketch.add("Cast", [sketch.pick()], to=helper.np_dtype_to_tensor_dtype(kind))
    if y and kind.kind != "b":
        y = sketch.add(sketch.choose(["Add", "Mul", "Max", "Sub"]), [y, partner(sketch, y)]) or y
    return y and sketch.flip(0.7) and sketch.add("Cast", [y], to=TensorProto.FLOAT)


def compare(sketch: Sketch) -> Any:
    """Add a comparison, and a choice by it."""
    x = sketch.pick()
    truth = sketch.add(sketch.choose(["Greater", "Less", "Equal"]), [x, partner(sketch, x)])
    if truth and sketch.flip(0.3):
        truth = sketch.add("Not", [truth])
    return truth and sketch.add("Where", [truth, x, partner(sketch, x)])


def gather(sketch: Sketch) -> Any:
    """Add a gather of rows, elements or points."""
    x = sketch.pick(least=1)
    value = sketch.values[x]
    axis = int(sketch.rng.integers(value.ndim))
    op_type = sketch.choose(["Gather", "Gather", "GatherElements", "GatherND"])
    if op_type == "GatherND":
        return sketch.add("GatherND", [x, sketch.constant(np.zeros((2, 1), np.int64))])
    shape = value.shape if op_type == "GatherElements" else sketch.shape(int(sketch.rng.integers(3)))
    indices = sketch.rng.integers(-value.shape[axis], value.shape[axis], shape)
    return sketch.add(op_type, [x, sketch.constant(np.asarray(indices, np.int64))], axis=axis)


def scatter(sketch: Sketch) -> Any:
    """Add a scatter of elements or rows."""
    x = sketch.pick(least=1)
    value = sketch.values[x]
    if sketch.flip():
        rows = sketch.constant(np.zeros((1, 1), np.int64))
        return sketch.add("ScatterND", [x, rows, sketch.constant(sketch.array([1, *value.shape[1:]]))])
    indices = sketch.constant(np.zeros([1] * value.ndim, np.int64))
    return sketch.add("ScatterElements", [x, indices, sketch.constant(sketch.array([1] * value.ndim))])


def top(sketch: Sketch) -> Any:
    """Add the largest numbers along an axis, and where they are."""
    x = sketch.pick(least=1)
    if sketch.opset < 10:
        return sketch.add_all("TopK", [x], 2, k=1)
    return sketch.add_all("TopK", [x, sketch.integers(1)], 2, axis=0, largest=int(sketch.flip()))


def expand(sketch: Sketch) -> Any:
    """Add a tensor that repeats another one."""
    x = sketch.pick(most=4, fits=lambda value: value.size < 4096)
    rank = sketch.values[x].ndim
    if sketch.flip():
        return sketch.add("Tile", [x, sketch.integers(*sketch.shape(rank, largest=3))])
    shape = [int(sketch.choose([1, n])) for n in sketch.values[x].shape]
    return sketch.add("Expand", [x, sketch.integers(2, *shape)])


def filled(sketch: Sketch) -> Any:
    """Add a tensor made of a shape: of a constant one, or that of another tensor."""
    value = numpy_helper.from_array(sketch.array([1]))
    shape = sketch.integers(*sketch.shape(int(sketch.rng.integers(4))))
    if sketch.flip():
        shape = sketch.add("Shape", [sketch.pick(most=4)]) or shape
    return sketch.add("ConstantOfShape", [shape], value=value)


def measure(sketch: Sketch) -> Any:
    """Add arithmetic on a shape that a reshape reads."""
    x = sketch.pick(least=2, most=4)
    shape = sketch.add("Shape", [x])
    first = shape and sketch.add("Gather", [shape, sketch.constant(np.array([0]))], axis=0)
    wanted = first and sketch.add("Concat", [first, sketch.constant(np.array([-1]))], axis=0)
    return wanted and sketch.add("Reshape", [x, wanted])


def recurrent(sketch: Sketch) -> Any:
    """Add a recurrent layer, with optional inputs left out."""
    kind = sketch.choose(["LSTM", "GRU", "RNN"])
    x = sketch.pick(least=3, most=3)
    gates, size, hidden = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], sketch.values[x].shape[2], 3
    ways = int(sketch.choose([1, 2]))
    weights = [sketch.constant(sketch.array([ways, gates * hidden, n])) for n in (size, hidden)]
    bias = [sketch.constant(sketch.array([ways, 2 * gates * hidden])) if sketch.flip() else ""]
    direction = {"direction": "bidirectional"} if ways == 2 else {}
    return sketch.add(kind, [x, *weights, *bias], hidden_size=hidden, **direction)


def layer_norm(sketch: Sketch) -> Any:
    """Add a normalization of the last axis, or of groups of channels."""
    if sketch.opset >= 21 and sketch.flip():
        x = sketch.pick(least=3)
        scales = [sketch.constant(sketch.array([sketch.values[x].shape[1]])) for _ in range(2)]
        return sketch.add("GroupNormalization", [x, *scales], num_groups=1, epsilon=1e-2)
    x = sketch.pick(least=1, fits=lambda value: value.shape[-1] > 1)
    scales = [sketch.constant(sketch.array(sketch.values[x].shape[-1:])) for _ in range(2)]
    return sketch.add("LayerNormalization", [x, *scales], epsilon=1e-2)


def quantized(sketch: Sketch) -> Any:
    """Add a number of eight bits and the way back."""
    scale, zero = sketch.constant(np.float32(0.1)), sketch.constant(np.uint8(128))
    y = sketch.add("QuantizeLinear", [sketch.pick(), scale, zero])
    return y and sketch.add("DequantizeLinear", [y, scale, zero])


def sequence(sketch: Sketch) -> Any:
    """Add a split into a sequence and what comes of it."""
    parts = sketch.add("SplitToSequence", [sketch.pick(least=1, most=4)], axis=0)
    if parts and sketch.flip():
        return sketch.add("SequenceAt", [parts, sketch.constant(np.array(0))])
    return parts and sketch.add("ConcatFromSequence", [parts], axis=0)


def counted(sketch: Sketch) -> Any:
    """Add an operator whose output is as long as the data say."""
    x = sketch.pick(least=1, most=3)
    match sketch.choose(["NonZero", "Unique", "Compress", "Range"]):
        case "NonZero":
            return sketch.add("NonZero", [x])
        case "Unique":
            return sketch.add("Unique", [x], sorted=1)
        case "Compress":
            return sketch.add("Compress", [x, sketch.constant(np.array([True]))], axis=0)
        case _:
            ends = [sketch.constant(np.float32(v)) for v in (0, 5, 1)]
            return sketch.add("Range", ends)


def einsum(sketch: Sketch) -> Any:
    """Add a product with a text."""
    x = sketch.pick(least=2, most=2)
    return sketch.add("Einsum", [x, x], equation="ij,kj->ik")


def make_body(sketch: Sketch, name: str, parameter: Any = None) -> tuple[onnx.GraphProto, Sketch, str]:
    """Return a subgraph of one to three nodes over the tensors around it, its scope and its output.

    Args:
        sketch: What is around it.
        name: The name of the subgraph.
        parameter: The first value of what a loop carries.
    """
    scope = sketch.inside()
    scope.feeds = dict.fromkeys("abcd")  # no inputs from inside: constants instead
    scope.values = {
        key: value for key, value in scope.values.items() if isinstance(value, np.ndarray) and value.size
    }
    inputs = []
    if parameter is not None:
        y = scope.name("p")
        scope.values[y] = parameter
        inputs = [describe(y, parameter)]
        last = scope.add("Mul", [y, scope.constant(np.float32(0.5))]) or y
    else:
        last = ""
        for _ in range(int(scope.rng.integers(1, 4))):
            choices = ADDS if sketch.flip(0.8) or sketch.count[0] > 80 else ADDS | BODIES
            found = choices[str(scope.choose(list(choices)))](scope)
            last = found if isinstance(found, str) and found in scope.values else last
        if not last:
            last = scope.add("Relu", [scope.pick()]) or ""
    tensors = [numpy_helper.from_array(value, key) for key, value in scope.constants.items()]
    outputs = [onnx.ValueInfoProto(name=last)]
    if isinstance(scope.values.get(last), np.ndarray) and sketch.flip():
        outputs = [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)]
    return helper.make_graph(scope.nodes, name, inputs, outputs, tensors), scope, last


def branch(sketch: Sketch) -> Any:
    """Add an If over a constant or a computed truth."""
    truth = sketch.constant(np.array(sketch.flip()))
    if sketch.flip(0.6):
        x = sketch.pick(fits=lambda value: value.size == 1)
        found = sketch.add("Greater", [x, sketch.constant(np.float32(0))])
        truth = (found and sketch.add("Reshape", [found, sketch.constant(np.zeros(0, np.int64))])) or truth
    bodies = {f"{name}_branch": make_body(sketch, name)[0] for name in ("then", "else")}
    return sketch.add("If", [truth], **bodies)


def loop(sketch: Sketch) -> Any:
    """Add a Loop that carries one tensor."""
    x = sketch.pick()
    body, scope, last = make_body(sketch, "body", sketch.values[x])
    if scope.values[last].shape != sketch.values[x].shape:
        return None
    index, going, goes_on = (sketch.name(stem) for stem in ("i", "go", "on"))
    body.input.insert(0, helper.make_tensor_value_info(going, TensorProto.BOOL, []))
    body.input.insert(0, helper.make_tensor_value_info(index, TensorProto.INT64, []))
    body.node.append(helper.make_node("Identity", [going], [goes_on]))
    body.output.insert(0, helper.make_tensor_value_info(goes_on, TensorProto.BOOL, []))
    counts = [sketch.constant(np.array(3)), sketch.constant(np.array(True))]
    return sketch.add("Loop", [*counts, x], body=body)


def call(sketch: Sketch) -> Any:
    """Add a call of a function of the model's own; later ones call earlier ones."""
    opsets = [helper.make_opsetid("", sketch.opset), helper.make_opsetid("local", 1)]
    known = [function.name for function in sketch.functions]
    if not known or sketch.flip():
        nodes = [helper.make_node(sketch.choose(["Relu", "Tanh", "Neg"]), ["a"], ["b"])]
        inner = [sketch.choose(known)] if known else []
        nodes += [helper.make_node(name, ["b"], ["d"], domain="local") for name in inner]
        nodes.append(helper.make_node("Add", [nodes[-1].output[0], "a"], ["e"]))
        known.append(sketch.name("Function"))
        sketch.functions.append(helper.make_function("local", known[-1], ["a"], ["e"], nodes, opsets))
    return sketch.add(sketch.choose(known), [sketch.pick()], domain="local")


_POINTWISE = (
    *("Abs", "Neg", "Erf", "Exp", "Sqrt", "Log", "Ceil", "Floor", "Round", "Sign", "Reciprocal", "Softplus"),
    *("Softsign", "Selu", "Celu", "ThresholdedRelu", "Shrink", "Sin", "Cos", "Atan", "Mish", "Gelu", "IsNaN"),
    *("Shape", "Size", "MeanVarianceNormalization"),
)
_REDUCTIONS = ("Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp")

BODIES: dict[str, Add] = {"If": branch, "Loop": loop}
HOST_ADDS: dict[str, Add] = {
    **{name: pointwise(name) for name in _POINTWISE},
    **{name: along_axis(name) for name in ("ArgMax", "ArgMin", "LogSoftmax", "Hardmax", "LpNormalization")},
    **{f"Reduce{name}": reduce(f"Reduce{name}") for name in _REDUCTIONS},
    **{name: total(name) for name in ("Max", "Min", "Mean")},
    "ReduceSum": reduce("ReduceSum", since=13),
    "Pow": binary("Pow"),
    "Mod": binary("Mod", np.int64),
    "And": binary("And", np.bool_),
    "CumSum": lambda s: s.add("CumSum", [s.pick(least=1), s.constant(np.array(0))]),
    "Trilu": lambda s: s.add("Trilu", [s.pick(least=2)]),
    "LpPool": lambda s: s.add("LpPool", [spatial(s)[0]], kernel_shape=[2, 2]),
    "QuickGelu": lambda s: s.add("QuickGelu", [s.pick()], domain="com.microsoft"),
    "MatMulOfAnyAxes": matmul,
    **{
        each.__name__: each
        for each in (cast, compare, gather, scatter, top, expand, filled, measure, recurrent, layer_norm)
    },
    **{each.__name__: each for each in (quantized, sequence, counted, einsum, branch, loop, call)},
}
"""What adds a node or a few, by operator: what the host computes."""
