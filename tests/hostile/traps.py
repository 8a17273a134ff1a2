"""Hostile models built by hand: too large, too deep, endless, or reaching for other files."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.frontend.onnx_models import make_model, node, random_array
from tests.hostile.case import Link

Files = Mapping[str, bytes | Link]
Trap = tuple[onnx.ModelProto, Files]

IMAGE = np.ones((1, 2, 4, 4), np.float32)


def one(
    op_type: str, *constants: Any, shape: Any = (1, 2, 4, 4), domain: str = "", **attributes: Any
) -> Trap:
    """Return a model of one node over x and constants."""
    names = [f"c{index}" for index in range(len(constants))]
    made = node(op_type, ["x", *names], ["y"], domain=domain, **attributes)
    values = dict(zip(names, map(np.asarray, constants), strict=True))
    return make_model([made], inputs={"x": shape}, constants=values), {}


def grown(op_type: str, shape: Any, *more: Any) -> Trap:
    """Return a model that adds x and a constant which a node makes from numbers alone."""
    values = {"s": np.asarray(shape, np.int64), **{f"m{i}": np.asarray(v) for i, v in enumerate(more)}}
    reads = ["s"] if op_type == "ConstantOfShape" else ["x", "s"] if op_type == "" else [*[*values][1:], "s"]
    nodes = [node(op_type, reads, ["big"]), node("ReduceMax", ["big"], ["m"], keepdims=0)]
    nodes.append(node("Add", ["x", "m"], ["y"]))
    return make_model(nodes, inputs={"x": [1, 2]}, constants=values), {}


def endless(*, depth: int, calls: int, is_recursive: bool = False, is_twice: bool = False) -> Trap:
    """Return a model of functions that call each other: ``calls`` ** ``depth`` calls in all."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    functions = []
    for level in range(depth):
        callee = "f0" if is_recursive and level == 0 else f"f{level - 1}"
        names = ["a", *(f"t{index}" for index in range(calls))]
        body = [
            node(callee, [x], [y], domain="local") if level or is_recursive else node("Relu", [x], [y])
            for x, y in pairwise(names)
        ]
        functions.append(helper.make_function("local", f"f{level}", ["a"], [names[-1]], body, opsets))
    model = one(f"f{depth - 1}", domain="local")[0]
    model.opset_import.append(opsets[1])
    model.functions.extend(functions + functions[: int(is_twice)])
    return model, {}


def nested(depth: int) -> bytes:
    """Return an If inside an If, so many times, as bytes: deep messages cannot be built in memory."""
    leaf = helper.make_graph([node("Relu", ["x"], ["y"])], "g", [], [onnx.ValueInfoProto(name="y")])
    graph = leaf.SerializeToString()
    choice = b""
    for _ in range(depth):
        choice = node("If", ["c"], ["y"]).SerializeToString()
        choice += _field(5, _attribute("then_branch", graph))
        choice += _field(5, _attribute("else_branch", leaf.SerializeToString()))
        rest = helper.make_graph([], "g", [], [onnx.ValueInfoProto(name="y")])
        graph = _field(1, choice) + rest.SerializeToString()
    model = make_model([], inputs={"x": [2]}, constants={"c": np.array(True)})
    top = model.graph.SerializeToString() + _field(1, choice)
    model.ClearField("graph")
    return bytes(model.SerializeToString()) + _field(7, top)


def _field(number: int, content: bytes) -> bytes:
    """Return a field of a protobuf message that holds bytes."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = b""
    while value > 127:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])


def _attribute(name: str, graph: bytes) -> bytes:
    head = onnx.AttributeProto(name=name, type=onnx.AttributeProto.GRAPH)
    return bytes(head.SerializeToString()) + _field(6, graph)


def chain(length: int, op_type: str = "Sigmoid") -> Trap:
    """Return a long row of nodes."""
    names = ["x", *(f"t{index}" for index in range(length - 1)), "y"]
    nodes = [node(op_type, [a], [b]) for a, b in pairwise(names)]
    return make_model(nodes, inputs={"x": [1, 4]}), {}


def dense(length: int) -> Trap:
    """Return a row of nodes each of which joins all before it."""
    nodes = [node("Relu", ["x"], ["t0"])]
    for index in range(1, length):
        reads = [f"t{i}" for i in range(max(0, index - 40), index)]
        nodes.append(node("Concat", reads, [f"j{index}"], axis=1))
        nodes.append(node("ReduceMean", [f"j{index}"], [f"t{index}"], axes=[1], keepdims=1))
    return make_model(nodes, inputs={"x": [1, 1, 2, 2]}, outputs=[f"t{length - 1}"]), {}


def many(count: int) -> Trap:
    """Return a model of so many outputs."""
    nodes = [node("Relu", ["x"], [f"y{index}"]) for index in range(count)]
    return make_model(nodes, inputs={"x": [2]}, outputs=[f"y{index}" for index in range(count)]), {}


def outside(location: str, files: Files | None = None, **entries: Any) -> Trap:
    """Return a model whose weight of 16 bytes lies at a location."""
    model = one("Add", random_array(1, 1, 1, 4))[0]
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
    return model, dict(files or {})


def reshaped(shape: list[int], x: list[int], *, how: str = "initializer") -> Trap:
    """Return a reshape whose constant changes the number of elements."""
    nodes, constants = [], {"s": np.array(shape, np.int64)}
    if how == "constant":
        nodes.append(node("Constant", [], ["s"], value=numpy_helper.from_array(constants.pop("s"))))
    if how == "arithmetic":
        nodes += [node("Shape", ["x"], ["l"]), node("Sub", ["l", "l"], ["o"]), node("Add", ["o", "s"], ["r"])]
    nodes.append(node("Reshape", ["x", "r" if how == "arithmetic" else "s"], ["y"]))
    return make_model(nodes, inputs={"x": x}, constants=constants), {}


def long_names(length: int) -> Trap:
    """Return a model with very long names."""
    name = "n" * length
    return make_model([node("Relu", [name], ["y"], name=name)], inputs={name: [1, 2, 4, 4]}), {}


def strange_tensor(**fields: Any) -> Trap:
    """Return a model whose weight has other fields than it should."""
    model = one("Add", random_array(1, 1, 1, 4))[0]
    tensor = model.graph.initializer[0]
    for name, value in fields.items():
        if name == "dims":
            del tensor.dims[:]
            tensor.dims.extend(value)
        else:
            setattr(tensor, name, value)
    return model, {}


def _with_segment() -> Trap:
    model, files = one("Add", random_array(1, 1, 1, 4))
    model.graph.initializer[0].segment.begin, model.graph.initializer[0].segment.end = 0, 4
    return model, files


_F32 = np.float32
TRAPS: dict[str, Callable[[], Trap | bytes]] = {
    "terabytes of a constant": lambda: grown("ConstantOfShape", [10**6, 10**6]),
    "a constant beyond 2^63": lambda: grown("ConstantOfShape", [2**40, 2**40]),
    "a negative constant": lambda: grown("ConstantOfShape", [-5]),
    "a tile of a thousand million": lambda: grown("Tile", [10**9], np.ones(1, _F32)),
    "an expansion": lambda: grown("Expand", [2**20, 2**20], np.ones(1, _F32)),
    "a long range": lambda: grown("Range", 1, np.int64(0), np.int64(2**40)),
    "tile of an input": lambda: one("Tile", np.array([1, 1, 2**20, 2**20])),
    "expansion of an input": lambda: one("Expand", np.array([2**30, 2, 4, 4])),
    "resize to 2^62": lambda: one(
        "Resize", np.zeros(0, _F32), np.zeros(0, _F32), np.array([1, 2, 2**31, 2**31])
    ),
    "resize by 1e30": lambda: one("Resize", np.zeros(0, _F32), np.array([1, 1, 1e30, 1e30], _F32)),
    "resize by nan": lambda: one("Resize", np.zeros(0, _F32), np.array([1, 1, np.nan, 1], _F32)),
    "resize by -1": lambda: one("Resize", np.zeros(0, _F32), np.array([1, 1, -1, 1], _F32)),
    "pads of 2^62": lambda: one("Pad", np.array([0, 0, 2**62, 0, 0, 0, 2**62, 0])),
    "pads of a million": lambda: one("Pad", np.array([0, 0, 10**6, 0, 0, 0, 0, 10**6])),
    "input beyond 2^63": lambda: one("Relu", shape=[1, 2, 2**40, 2**40]),
    "input of terabytes": lambda: one("Relu", shape=[1, 2, 2**20, 2**20]),
    "input of -2": lambda: one("Relu", shape=[1, -2, 4, 4]),
    "windows of 2^62": lambda: one("MaxPool", kernel_shape=[2**62, 2**62]),
    "pads of a pool": lambda: one("AveragePool", kernel_shape=[2, 2], pads=[2**31, 0, 0, 2**31], ceil_mode=1),
    "dilations of 2^62": lambda: one("Conv", random_array(2, 2, 3, 3), dilations=[2**62, 2**62]),
    "strides of 2^62": lambda: one("ConvTranspose", random_array(2, 2, 3, 3), strides=[2**62, 2**40]),
    "groups of 2^62": lambda: one("Conv", random_array(2, 2, 3, 3), group=2**62),
    "a block of 2^31": lambda: one("DepthToSpace", blocksize=2**31),
    "a split of 2^62": lambda: one("Split", np.array([2**62, 2**62]), axis=1),
    "gemm with a short C": lambda: one("Gemm", random_array(3, 4), random_array(3), shape=[2, 3]),
    "clip with two limits": lambda: one("Clip", np.zeros(2, _F32)),
    "pad with two values": lambda: one("Pad", np.array([0] * 8), np.zeros(2, _F32)),
    "a slope of another shape": lambda: one("PRelu", random_array(3)),
    "a reshape to more": lambda: reshaped([0, 0, 0, 100], [2, 2, 4, 4]),
    "a reshape to much more": lambda: reshaped([0, 0, 0, 10**6], [2, 2, 4, 4]),
    "a reshape to nothing": lambda: reshaped([0], [1, 4, 8, 8]),
    "a reshape to a number": lambda: reshaped([], [1, 4, 8, 8]),
    "a reshape in a Constant": lambda: reshaped([1, 4, 64, 0], [1, 4, 8, 8], how="constant"),
    "a computed reshape": lambda: reshaped([0, 0, 0, 100], [2, 2, 4, 4], how="arithmetic"),
    "a function that calls itself": lambda: endless(depth=1, calls=1, is_recursive=True),
    "functions in a circle": lambda: endless(depth=3, calls=2, is_recursive=True),
    "a function given twice": lambda: endless(depth=2, calls=1, is_twice=True),
    "65,536 calls": lambda: endless(depth=17, calls=2),
    "2^40 calls": lambda: endless(depth=41, calls=2),
    "200 functions deep": lambda: endless(depth=200, calls=1),
    "30 branches deep": lambda: nested(30),
    "500 branches deep": lambda: nested(500),
    "a chain of 2,000": lambda: chain(2000),
    "a chain of 2,000 identities": lambda: chain(2000, "Identity"),
    "a dense row of 100": lambda: dense(100),
    "3,000 outputs": lambda: many(3000),
    "names of 1 MB": lambda: long_names(1 << 20),
    "names of 20 KB": lambda: long_names(20 << 10),
    "a weight above the folder": lambda: outside("../secret.bin", length=16),
    "a weight in /etc": lambda: outside("/etc/passwd", length=16),
    "a weight above a folder": lambda: outside("a/../../secret.bin", {"a/b": b"0" * 16}, length=16),
    "a link outside": lambda: outside("l", {"l": Link(to="../secret.bin")}, length=16),
    "a link to a device": lambda: outside("l", {"l": Link(to="/dev/zero")}),
    "a link to itself": lambda: outside("l", {"l": Link(to="l")}),
    "a folder of links": lambda: outside("d/secret.bin", {"d": Link(to="..")}, length=16),
    "a weight in a pipe": lambda: outside("p", {"p": Link(is_pipe=True)}, length=16),
    "a weight in a folder": lambda: outside("a", {"a/b": b"0" * 16}, length=16),
    "20 GiB for 16 bytes": lambda: outside("s", {"s": Link(size=20 << 30)}),
    "a sparse file with an offset": lambda: outside(
        "s", {"s": Link(size=20 << 30)}, offset=16 << 30, length=16
    ),
    "an offset of 2^62": lambda: outside("s", {"s": b"0" * 16}, offset=2**62, length=16),
    "an offset of -8": lambda: outside("s", {"s": b"0" * 32}, offset=-8, length=16),
    "an offset that is text": lambda: outside("s", {"s": b"0" * 32}, offset="many", length=16),
    "a length of 2^62": lambda: outside("s", {"s": b"0" * 16}, length=2**62),
    "a length of -1": lambda: outside("s", {"s": b"0" * 16}, length=-1),
    "a length of 8": lambda: outside("s", {"s": b"0" * 16}, length=8),
    "a location of 5,000 characters": lambda: outside("d" * 5000),
    "an empty location": lambda: outside(""),
    "a location with a null": lambda: outside("s\x00t", {"s": b"0" * 16}),
    "a location that is the model": lambda: outside("model.onnx", length=16),
    "no file": lambda: outside("nowhere.bin"),
    "a segment": _with_segment,
    "dimensions beyond 2^63": lambda: strange_tensor(dims=[2**40, 2**40]),
    "no elements of huge lengths": lambda: strange_tensor(dims=[2**62, 0], raw_data=b""),
    "negative dimensions": lambda: strange_tensor(dims=[-1, -4]),
    "text of another kind": lambda: strange_tensor(data_type=TensorProto.STRING),
    "an element type of four bits": lambda: strange_tensor(data_type=TensorProto.INT4),
}
"""What is special about a model -> what builds it; x is fed ones."""
