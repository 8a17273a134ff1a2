"""The judge of numbers: ONNX Runtime's outputs and intermediates, and how far codl may be from them.

Tolerances are max|error| / max|reference|, per tensor:

- 1e-4 for a tensor inside a network: two float32 programs that sum in different orders, tens of layers deep.
- 1e-5 for one operator fed ONNX Runtime's own inputs: one sum of up to 25088 products, rounded differently.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float32]
NETWORK_TOLERANCE = 1e-4
OPERATOR_TOLERANCE = 1e-5


def random_feeds(model: onnx.ModelProto, *, seed: int = 0) -> dict[str, Any]:
    """Return arrays for every input of ``model`` that is no initializer.

    Floating-point numbers are standard-normal; others are 0 or 1, which are indices of any long axis.
    """
    rng = np.random.default_rng(seed)
    constants = {initializer.name for initializer in model.graph.initializer}
    feeds: dict[str, Any] = {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        is_float = np.issubdtype(dtype, np.floating)
        drawn = rng.standard_normal(shape, np.float32) if is_float else rng.integers(0, 2, shape)
        feeds[value.name] = np.asarray(drawn).astype(dtype)
    return feeds


def run_reference(model: onnx.ModelProto, feeds: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return ONNX Runtime's values of the tensors ``names``; those the model does not have are left out."""
    known = {output for node in model.graph.node for output in node.output}
    wanted = [name for name in names if name in known]
    published = onnx.ModelProto()
    published.CopyFrom(model)
    del published.graph.output[:]
    published.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        published.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return dict(zip(wanted, session.run(wanted, dict(feeds)), strict=True))


def relative_error(value: Array, reference: Array) -> float:
    """Return max|value - reference| / max|reference|; infinite for NaN, Inf, another shape or type."""
    if value.dtype.kind in "OUS":
        return 0.0 if value.tolist() == reference.tolist() else float("inf")
    if value.dtype != reference.dtype or value.shape != reference.shape or not np.isfinite(value).all():
        return float("inf")
    scale = float(np.abs(reference.astype(np.float64)).max(initial=0.0)) or 1.0
    return float(np.abs(value.astype(np.float64) - reference.astype(np.float64)).max(initial=0.0)) / scale
