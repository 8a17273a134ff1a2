"""The benchmark networks, narrow and small, become graphs that compute what they compute."""

from collections import Counter

import pytest

from tests.frontend.onnx_models import check_translation
from tools.networks import build

KINDS = {
    "resnet50": {"Conv2d": 53, "Pool2d": 1, "RowSum": 1, "CombineRows": 1, "Reshape": 1, "MatMul": 1},
    "vgg16": {"Conv2d": 13, "Pool2d": 5, "Reshape": 1, "MatMul": 3},
    "yolov2": {"Conv2d": 23, "Pool2d": 5, "SpaceToDepth": 1, "Concat": 1},
    "mobilenet_v2": {"Conv2d": 52, "RowSum": 1, "CombineRows": 1, "Reshape": 1, "MatMul": 1},
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("batch", [1, 3])
def test_translates_network(name: str, batch: int) -> None:
    model = build(name, width=0.125, size=64, batch=batch)

    graph = check_translation(model)

    assert Counter(n.kind for n in graph.nodes) == KINDS[name]
