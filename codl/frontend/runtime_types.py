"""Types and shapes that ONNX's shape inference does not know and ONNX Runtime does: of its own operators."""

from typing import Any

from codl.errors import UnsupportedError
from codl.frontend.shapes import Inferred, make_skeleton
from codl.host_session import open_host_session
from codl.ir.graph import Shape
from codl.runtime import onnxruntime


def complete(inferred: Inferred, model: Any) -> Inferred:
    """Return what is inferred of a model together with what ONNX Runtime knows beyond it.

    It is asked only where something is missing, about a copy without the big weights.
    """
    written = [name for node in model.graph.node for name in node.output if name]
    missing = [name for name in written if name not in inferred.types or name not in inferred.shapes]
    if not missing:
        return inferred
    skeleton = make_skeleton(model)
    skeleton.graph.node.extend(model.graph.node)
    for name in missing:
        skeleton.graph.output.add().name = name
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    try:
        session = open_host_session(skeleton.SerializeToString(), options, label="a skeleton: got one")
    except UnsupportedError:  # a weight may have to be a constant: then what is missing stays unknown
        return inferred
    shapes, types = dict(inferred.shapes), dict(inferred.types)
    for found in session.get_outputs():
        types.setdefault(found.name, found.type)
        shape = _read_shape(found.shape)
        if shape is not None:
            shapes.setdefault(found.name, shape)
    return Inferred(shapes=shapes, types=types)


def _read_shape(told: Any) -> Shape | None:
    """Return a shape of numbers; an empty one stands for an unknown one as well, and is none."""
    if not told or not all(isinstance(length, int) and length >= 0 for length in told):
        return None
    return tuple(told)
