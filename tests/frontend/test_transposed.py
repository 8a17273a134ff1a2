"""Automatic padding of ConvTranspose, where ONNX's shape inference leaves out output padding."""

import numpy as np
import pytest

from codl.frontend import load_graph
from tests.frontend.onnx_models import check_translation, make_model, node, random_array
from tests.graph_reference import evaluate


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
@pytest.mark.parametrize("kernel", [(3, 3), (1, 2), (5, 4)], ids=str)
@pytest.mark.parametrize("extra", [None, (1, 1), (0, 2)], ids=str)
def test_pads_as_onnx_runtime_does(mode: str, kernel: tuple[int, int], extra: tuple[int, int] | None) -> None:
    attributes = {} if extra is None else {"output_padding": extra}
    convolution = node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 3], auto_pad=mode, **attributes)
    model = make_model(
        [convolution], inputs={"x": (1, 2, 4, 3)}, constants={"w": random_array(2, 3, *kernel)}
    )

    graph = check_translation(model, infers_shapes=False)

    assert not graph.host_models


def test_takes_output_padding_away_with_the_rest() -> None:
    weight = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    attributes = {"strides": [2, 2], "auto_pad": "SAME_UPPER", "output_padding": [1, 1]}
    convolution = node("ConvTranspose", ["x", "w"], ["y"], **attributes)
    model = make_model([convolution], inputs={"x": (1, 1, 3, 3)}, constants={"w": weight})

    value = evaluate(load_graph(model.SerializeToString()), {"x": np.ones((1, 1, 3, 3), np.float32)})["y"]

    assert value.shape == (1, 1, 6, 6)
    assert value[0, 0, 0].tolist() == [4, 8, 4, 8, 4, 5]
