"""Legal models that are unusual."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.hostile.case import Case
from tests.hostile.sketch import Sketch, describe
from tests.hostile.valid import choose_outputs, draw_sketch, find_windows

Change = Callable[[onnx.ModelProto, Sketch], Any]
_SCALES = (np.nan, np.inf, -np.inf, 1e30, 1e-30, 1e-42, -0.0, 3e38)


def list_outputs_twice(model: onnx.ModelProto, _: Sketch) -> None:
    """List the same output twice."""
    model.graph.output.append(model.graph.output[0])


def return_input(model: onnx.ModelProto, sketch: Sketch) -> None:
    """Return an input as it is."""
    for name, value in list(sketch.feeds.items())[:1]:
        model.graph.output.append(describe(name, value))


def return_initializer(model: onnx.ModelProto, sketch: Sketch) -> None:
    """Return an initializer as it is."""
    for name, value in list(sketch.constants.items())[:1]:
        model.graph.output.append(describe(name, value))


def add_unused(model: onnx.ModelProto, sketch: Sketch) -> None:
    """Add an input, an initializer, a node and an operator set that nothing reads."""
    sketch.feeds["unused"] = np.ones((2, 0, 3), np.float32)
    model.graph.input.append(describe("unused", sketch.feeds["unused"]))
    model.graph.initializer.append(numpy_helper.from_array(np.ones((1 << 10), np.float64), "idle"))
    model.graph.node.append(helper.make_node("Relu", [next(iter(sketch.feeds))], ["nowhere"]))
    model.opset_import.append(helper.make_opsetid("com.example.unused", 3))


def name_all_alike(model: onnx.ModelProto, _: Sketch) -> None:
    """Give all nodes one name, and texts of any kind."""
    for node in model.graph.node:
        node.name, node.doc_string = "same", "\x1b[2J" * 3
    model.producer_name, model.graph.doc_string, model.graph.name = "\x00p", "d" * 5000, ""
    model.metadata_props.add(key="", value="\x07")


def spell_the_domain(model: onnx.ModelProto, _: Sketch) -> None:
    """Write the default domain in full."""
    for node in model.graph.node:
        node.domain = node.domain or "ai.onnx"


def override_initializers(model: onnx.ModelProto, sketch: Sketch) -> None:
    """List initializers as inputs: constants in IR 3, later ones that may be fed."""
    model.ir_version = int(sketch.choose([3, 8]))
    for tensor in list(model.graph.initializer)[:3]:
        info = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        model.graph.input.append(info)


def feed_nothing(model: onnx.ModelProto, sketch: Sketch) -> None:
    """Make every input a constant."""
    for name, value in sketch.feeds.items():
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    sketch.feeds.clear()
    del model.graph.input[:]


def declare_all(model: onnx.ModelProto, sketch: Sketch) -> None:
    """Declare the shape of every tensor, some of them open."""
    names = [name for node in model.graph.node for name in node.output]
    outputs = {output.name for output in model.graph.output}
    for name in names:
        if name in sketch.values and name not in outputs:
            model.graph.value_info.append(describe(name, sketch.values[name]))


def append_identities(model: onnx.ModelProto, _: Sketch) -> None:
    """Rename every output by a row of nodes that do nothing."""
    for index, output in enumerate(list(model.graph.output)):
        steps = [output.name, *(f"same {index} {step}" for step in range(3))]
        for x, y in pairwise(steps):
            model.graph.node.append(helper.make_node("Identity", [x], [y]))
        model.graph.output[index].name = steps[-1]


def leave_out_the_rest(model: onnx.ModelProto, _: Sketch) -> None:
    """Name optional inputs at the end, and leave them empty."""
    schemas = {"Conv": 3, "Clip": 3, "Pad": 3, "Gemm": 3, "Slice": 5, "Resize": 4}
    for node in model.graph.node:
        if node.op_type in schemas and node.op_type not in ("Resize",):
            least = len(node.input)
            node.input.extend([""] * max(0, schemas[node.op_type] - least))


def scale_weights(model: onnx.ModelProto, sketch: Sketch) -> None:
    """Put an extreme number into a weight."""
    for tensor in model.graph.initializer:
        value = numpy_helper.to_array(tensor).copy()
        if value.dtype == np.float32 and value.size and sketch.flip(0.7):
            value.flat[int(sketch.rng.integers(value.size))] = sketch.choose(_SCALES)
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))


def scale_feeds(_: onnx.ModelProto, sketch: Sketch) -> None:
    """Feed extreme numbers."""
    for name, value in sketch.feeds.items():
        if value.dtype == np.float32 and value.size:
            changed = value.copy()
            changed.flat[int(sketch.rng.integers(value.size))] = sketch.choose(_SCALES)
            sketch.feeds[name] = changed


def stride_feeds(_: onnx.ModelProto, sketch: Sketch) -> None:
    """Feed arrays that lie backwards or apart in memory, and may not be written."""
    for name, value in sketch.feeds.items():
        apart = np.repeat(value[::-1], 2, axis=0)[::-2] if value.ndim else value
        changed = np.asfortranarray(apart) if sketch.flip() else apart
        changed.flags.writeable = False
        sketch.feeds[name] = changed


CHANGES: tuple[Change, ...] = (
    list_outputs_twice,
    return_input,
    return_initializer,
    add_unused,
    name_all_alike,
    spell_the_domain,
    override_initializers,
    feed_nothing,
    declare_all,
    append_identities,
    leave_out_the_rest,
    scale_weights,
    scale_feeds,
    stride_feeds,
)


def make_empty(name: str, rng: np.random.Generator) -> Case:
    """Return a model one of whose inputs has no elements."""
    sketch = Sketch(rng=rng, opset=int(rng.integers(7, 24)), is_clean=False)
    rank = int(rng.integers(1, 5))
    shape = sketch.shape(rank)
    shape[int(rng.integers(rank))] = 0
    x = sketch.feed(np.zeros(shape, np.float32))
    for _ in range(int(rng.integers(1, 4))):
        op_type = sketch.choose(["Relu", "Concat", "Transpose", "ReduceSum", "Shape", "Add", "MatMul", "Pad"])
        y = sketch.feed(sketch.array([max(1, n) for n in shape]))
        match op_type:
            case "Concat":
                found = sketch.add("Concat", [x, y], axis=shape.index(0))
            case "Add" | "MatMul":
                found = sketch.add(op_type, [x, x])
            case "Pad":
                found = sketch.add("Pad", [x, sketch.integers(*[1] * (2 * rank))])
            case _:
                found = sketch.add(op_type, [x])
        x = found if found and sketch.values[found].dtype == np.float32 else x
    sketch.add("Relu", [x])
    model = sketch.finish(choose_outputs(sketch))
    if sketch.flip():
        for value in model.graph.input:
            for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                dim.dim_param = f"{value.name}_{axis}"
        for value in model.graph.output:
            value.type.tensor_type.ClearField("shape")
    ops = ", ".join(node.op_type for node in sketch.nodes)
    return Case(name=name, what=f"no elements: {ops}", content=model.SerializeToString(), feeds=sketch.feeds)


def make_odd(name: str, rng: np.random.Generator) -> Case:
    """Return a legal model with one to three unusual changes."""
    if rng.random() < 0.15:
        return make_empty(name, rng)
    sketch = draw_sketch(rng, most=6)
    model = sketch.finish(choose_outputs(sketch))
    chosen = [CHANGES[int(i)] for i in rng.permutation(len(CHANGES))[: int(rng.integers(1, 4))]]
    for change in chosen:
        change(model, sketch)
    what = f"{', '.join(c.__name__ for c in chosen)}: {', '.join(n.op_type for n in sketch.nodes)}"
    return Case(
        name=name,
        what=f"opset {sketch.opset}, {what}",
        content=model.SerializeToString(),
        feeds=sketch.feeds,
        is_pair=sketch.flip(0.1),
        spreads_nan=any(find_windows(model)),
    )
