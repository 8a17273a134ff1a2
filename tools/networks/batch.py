"""Sets the batch of a network that was described for one image."""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import numpy_helper


def set_batch(model: onnx.ModelProto, *, batch: int) -> onnx.ModelProto:
    """Return ``model``, which has batch 1, for ``batch`` images.

    Input and output take the batch as their first dimension, and so do the shape constants of
    the Reshape nodes that carry images; those that reshape a weight stay.

    Raises:
        ValueError: The batch is below 1, or a Reshape has a shape that cannot be changed.
    """
    if batch < 1:
        raise ValueError(f"batch is {batch}; it must be at least 1")
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    if batch == 1:
        return changed
    graph = changed.graph
    for value in (graph.input[0], *graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = batch
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in _image_reshapes(graph):
        if node.input[1] not in constants:
            raise ValueError(f"batch {batch}: Reshape {node.name!r} computes its shape")
        constant = constants[node.input[1]]
        shape = np.array(numpy_helper.to_array(constant))
        if shape[0] not in (-1, 0, 1, batch):
            raise ValueError(f"batch {batch}: Reshape {node.name!r} has the baked shape {shape.tolist()}")
        if shape[0] == 1:
            shape[0] = batch
            constant.CopyFrom(numpy_helper.from_array(shape, constant.name))
    return changed


def _image_reshapes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield each Reshape whose data depends on the graph's first input."""
    images = {graph.input[0].name}
    for node in graph.node:
        if images.isdisjoint(node.input):
            continue
        images.update(node.output)
        if node.op_type == "Reshape":
            yield node
