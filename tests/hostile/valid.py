"""Valid models: random graphs of every operator, type, rank and opset."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

from tests.hostile.case import Case
from tests.hostile.host_operators import HOST_ADDS
from tests.hostile.kernel_operators import ADDS
from tests.hostile.sketch import NEWEST_OPSET, Sketch

EXTERNAL = "weights/all.bin"


def draw_sketch(rng: np.random.Generator, *, is_clean: bool = True, most: int = 9) -> Sketch:
    """Return a sketch with a few random nodes, two thirds of them of operators that have kernels."""
    opset = int(rng.integers(7, NEWEST_OPSET + 1))
    sketch = Sketch(rng=rng, opset=opset, has_odd_names=bool(rng.random() < 0.15), is_clean=is_clean)
    wanted = int(rng.integers(1, most))
    for _ in range(3 * wanted):
        adds = ADDS if sketch.flip(0.7) else HOST_ADDS
        adds[str(sketch.choose(list(adds)))](sketch)
        if sum(node.op_type != "Constant" for node in sketch.nodes) >= wanted:
            break
    if not sketch.nodes or not sketch.feeds:
        sketch.add("Relu", [sketch.feed(sketch.array([2, 3]))])
    return sketch


def choose_outputs(sketch: Sketch) -> list[str]:
    """Return what no node reads, and a few other tensors."""
    read = {name for node in sketch.nodes for name in node.input}
    found = [name for node in sketch.nodes if node.op_type != "Constant" for name in node.output]
    known = [name for name in found if sketch.values.get(name) is not None]
    chosen = [name for name in known if name not in read or sketch.flip(0.2)]
    return chosen or known[-1:]


def draw_model(sketch: Sketch) -> tuple[onnx.ModelProto, dict[str, bytes]]:
    """Return a model of a sketch, declared in one of many ways, and the files of its weights."""
    model = sketch.finish(choose_outputs(sketch))
    files: dict[str, bytes] = {}
    if sketch.flip(0.15):
        files = externalize(model)
    elif sketch.flip(0.2):
        write_fields(model)
    if sketch.flip(0.1) and not files:
        make_sparse(model, sketch)
    if sketch.flip(0.3):
        open_dimensions(model, sketch)
    if sketch.flip(0.3):
        for output in model.graph.output:
            output.ClearField("type")
    return model, files


def make_valid(name: str, rng: np.random.Generator) -> Case:
    """Return a valid model."""
    sketch = draw_sketch(rng)
    model, files = draw_model(sketch)
    what = f"opset {sketch.opset}: {', '.join(node.op_type for node in sketch.nodes)}"
    return Case(
        name=name,
        what=what,
        content=model.SerializeToString(),
        feeds=sketch.feeds,
        files=files,
        is_file=bool(files) or sketch.flip(0.2),
        is_pair=sketch.flip(0.15),
    )


def externalize(model: onnx.ModelProto) -> dict[str, bytes]:
    """Move weights into a file and return it."""
    content = b""
    for tensor in model.graph.initializer:
        data = tensor.raw_data
        if tensor.data_type != TensorProto.FLOAT or len(data) < 8:  # what says shapes stays
            continue
        set_external_data(tensor, EXTERNAL, offset=len(content), length=len(data))
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        content += data
    return {EXTERNAL: content} if content else {}


def write_fields(model: onnx.ModelProto) -> None:
    """Write initializers as numbers in the field of their type."""
    for tensor in model.graph.initializer:
        value = numpy_helper.to_array(tensor)
        if value.dtype in (np.float32, np.int64, np.float64, np.int32):
            tensor.CopyFrom(helper.make_tensor(tensor.name, tensor.data_type, value.shape, value.ravel()))


def make_sparse(model: onnx.ModelProto, sketch: Sketch) -> None:
    """Write a float initializer as a sparse one."""
    for tensor in model.graph.initializer:
        value = numpy_helper.to_array(tensor)
        if value.dtype == np.float32 and value.ndim and value.size and (value != 0).all() and sketch.flip():
            flat = np.arange(value.size)
            values = numpy_helper.from_array(value.ravel(), tensor.name)
            sparse = helper.make_sparse_tensor(
                values, numpy_helper.from_array(flat, f"{tensor.name}/at"), value.shape
            )
            model.graph.sparse_initializer.append(sparse)
            model.graph.initializer.remove(tensor)
            return


def open_dimensions(model: onnx.ModelProto, sketch: Sketch) -> None:
    """Leave some lengths of inputs and all of outputs open, by a name, without one, or as -1."""
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if sketch.flip():
                _open(dim, sketch.choose([f"{value.name}_{axis}", "", "", "-1"]))
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")


def _open(dim: Any, how: str) -> None:
    dim.Clear()
    if how == "-1":
        dim.dim_value = -1
    elif how:
        dim.dim_param = how


def find_windows(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield the convolutions of a model."""
    yield from (node for node in model.graph.node if node.op_type == "Conv")
