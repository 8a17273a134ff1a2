"""The benchmark networks become graphs without anything unsupported, which compute what they compute."""

from collections import Counter

import pytest

from codl.frontend import load_graph
from tests.frontend.onnx_models import check_translation
from tools.networks import NAMES, build

MEAN = {"RowSum": 1, "CombineRows": 1}
OWN = {
    "resnet50": {"Conv2d": 53, "Pool2d": 1, "Reshape": 1, "MatMul": 1} | MEAN,
    "vgg16": {"Conv2d": 13, "Pool2d": 5, "Reshape": 1, "MatMul": 3},
    "yolov2": {"Conv2d": 23, "Pool2d": 5, "SpaceToDepth": 1, "Concat": 1},
    "mobilenet_v2": {"Conv2d": 52, "Reshape": 1, "MatMul": 1} | MEAN,
    "posenet": {"Conv2d": 31, "Pool2d": 3, "Concat": 2},
    "retinaface": {"Conv2d": 91, "Pool2d": 4, "Concat": 11, "Unary": 5, "Reshape": 5, "Resize2d": 3},
    "fast_style_transfer": {"Conv2d": 16, "Resize2d": 2}
    | dict.fromkeys(("RowMoments", "CombineMoments", "Normalize"), 15),
}
HEAD = {"Reshape": 1, "MatMul": 1, "Softmax": 1}
LIGHT = {
    "alexnet": {"Conv2d": 5, "LocalResponseNorm": 2, "Pool2d": 3} | HEAD | {"MatMul": 3},
    "densenet121": {"Conv2d": 121, "Pool2d": 4, "Affine": 62, "Concat": 58} | MEAN,
    "inception_v1": {"Conv2d": 57, "Pool2d": 14, "LocalResponseNorm": 2, "Concat": 9} | HEAD,
    "inception_v2": {"Conv2d": 69, "Pool2d": 13, "Concat": 10} | HEAD,
    "resnet50_light": {"Conv2d": 53, "Pool2d": 2} | HEAD,
    "shufflenet": {"Conv2d": 49, "Pool2d": 5, "ChannelShuffle": 16, "Concat": 3, "Unary": 3} | HEAD,
    "squeezenet": {"Conv2d": 26, "Pool2d": 3, "Concat": 8, "Softmax": 1} | MEAN,
    "vgg19": {"Conv2d": 16, "Pool2d": 5} | HEAD | {"MatMul": 3},
    "zfnet512": {"Conv2d": 5, "LocalResponseNorm": 2, "Pool2d": 3} | HEAD | {"MatMul": 3},
}
HEAVY = ("alexnet", "vgg19", "zfnet512")
"""Those with hundreds of megabytes of weights."""


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("batch", [1, 3])
def test_translates_network(name: str, batch: int) -> None:
    model = build(name, width=0.125, size=64, batch=batch)

    graph = check_translation(model)

    assert Counter(n.kind for n in graph.nodes) == OWN[name]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.heavy if name in HEAVY else ()) for name in LIGHT]
)
def test_translates_light_network(name: str) -> None:
    graph = load_graph(build(name).SerializeToString())

    assert Counter(n.kind for n in graph.nodes) == LIGHT[name]


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["densenet121", "inception_v1", "shufflenet", "squeezenet"])
def test_computes_what_a_light_network_computes(name: str) -> None:
    check_translation(build(name))


def test_covers_every_network() -> None:
    assert set(OWN) | set(LIGHT) == set(NAMES)
