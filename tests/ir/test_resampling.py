"""Taps of a resized axis, against ONNX Runtime on impulses."""

import math

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from codl.ir.ops import Coordinates, Resize2d, ResizeMode, Rounding
from codl.ir.ops.resizing import find_taps

LENGTHS = (1, 2, 3, 5, 16, 33)
SCALES = (0.1, 0.3, 0.5, 0.6, 0.75, 1.0, 1.1, 1.25, 1.5, 1.7, 2.0, 2.3, 3.0, 7.5)


def resize_impulses(op: Resize2d, length: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Return [input, output]: what ONNX Runtime makes of one impulse at each input position."""
    scales = np.array([1, 1, 2, op.scale[1]], np.float32)  # two rows: an equal size would be copied
    node = helper.make_node(
        "Resize",
        ["x", "", "s"],
        ["y"],
        mode=op.mode.value,
        coordinate_transformation_mode=op.coordinates.value,
        nearest_mode=op.rounding.value,
    )
    graph = helper.make_graph(
        [node],
        "resize",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, length, 1, length])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(scales, "s")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert isinstance(model, onnx.ModelProto)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    impulses = np.eye(length, dtype=np.float32)[None, :, None, :]
    return np.asarray(session.run(None, {"x": impulses})[0][0, :, 0])


@pytest.mark.parametrize("coordinates", Coordinates)
@pytest.mark.parametrize("sampling", [ResizeMode.LINEAR, *Rounding], ids=lambda kind: kind.value)
def test_takes_what_onnx_runtime_takes(coordinates: Coordinates, sampling: ResizeMode | Rounding) -> None:
    for length in LENGTHS:
        for scale in (float(np.float32(s)) for s in SCALES):
            if math.floor(length * scale) < 1:
                continue
            op = Resize2d(
                mode=ResizeMode.LINEAR if sampling is ResizeMode.LINEAR else ResizeMode.NEAREST,
                scale=(1.0, scale),
                coordinates=coordinates,
                rounding=sampling if isinstance(sampling, Rounding) else Rounding.PREFER_FLOOR,
            )

            expected = resize_impulses(op, length)

            outputs = np.arange(expected.shape[1])
            taps = find_taps(op, axis=1, length=length, out_length=len(outputs))
            matrix = np.zeros_like(expected)
            np.add.at(matrix, (taps.low, outputs), 1 - taps.weight)
            np.add.at(matrix, (taps.high, outputs), taps.weight)
            assert np.allclose(matrix, expected, atol=1e-6), (length, scale)
