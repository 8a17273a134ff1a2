"""The judge of numbers: ONNX Runtime's outputs and intermediates, and how far codl may be from them.

Tolerances are max|error| / max|reference|, per tensor:

- 1e-4 for a tensor inside a network: two float32 programs that sum in different orders, tens of layers deep.
- 1e-5 for one operator fed ONNX Runtime's own inputs: one sum of up to 25088 products, rounded differently.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

FloatArray = npt.NDArray[np.float32]
NETWORK_TOLERANCE = 1e-4
OPERATOR_TOLERANCE = 1e-5


def random_feeds(model: onnx.ModelProto, *, seed: int = 0) -> dict[str, FloatArray]:
    """Return standard-normal arrays for every input of ``model`` that is no initializer."""
    rng = np.random.default_rng(seed)
    constants = {initializer.name for initializer in model.graph.initializer}
    return {
        value.name: rng.standard_normal([d.dim_value for d in value.type.tensor_type.shape.dim], np.float32)
        for value in model.graph.input
        if value.name not in constants
    }


def run_reference(
    model: onnx.ModelProto, feeds: Mapping[str, FloatArray], names: Iterable[str]
) -> dict[str, FloatArray]:
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


def relative_error(value: FloatArray, reference: FloatArray) -> float:
    """Return max|value - reference| / max|reference|; infinite for NaN, Inf or another shape."""
    if value.shape != reference.shape or not np.isfinite(value).all():
        return float("inf")
    scale = float(np.abs(reference).max(initial=0.0)) or 1.0
    return float(np.abs(value.astype(np.float64) - reference).max(initial=0.0)) / scale
