"""Networks with attention, split every way."""

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import onnx
import pytest

from codl.devices.opencl import open_devices
from codl.ir.ops import Attention
from tests.exactness import DEVICES, Case, cut_every_node
from tests.executor import encoders
from tests.executor.encoders import Sketch
from tests.random_plans import draw_plan


def masked() -> onnx.ModelProto:
    """Return self-attention of one projection over two sequences, with a mask of keys."""
    net = Sketch()
    turned = net.add("Transpose", net.reshape(net.linear("x", 24, 72), 2, 11, 3, 3, 8), perm=(2, 0, 3, 1, 4))
    query, key, value = (net.add("Gather", turned, net.constant(part, np.int64), axis=0) for part in range(3))
    product = net.add("MatMul", query, net.add("Transpose", key, perm=(0, 1, 3, 2)))
    scores = net.add("Add", net.add("Mul", product, net.constant(0.35)), net.weight(2, 1, 1, 11, scale=1.0))
    mixed = net.add("MatMul", net.add("Softmax", scores, axis=-1), value)
    joined = net.reshape(net.add("Transpose", mixed, perm=(0, 2, 1, 3)), 2, 11, 24)
    return net.finish({"x": (2, 11, 24)}, [net.linear(joined, 24, 24)])


NETWORKS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "bert": lambda: encoders.bert(layers=1, batch=2),
    "masked": masked,
    "swin": lambda: encoders.swin(batch=2),
    "vit": encoders.vit,
}


@cache
def load(network: str) -> Case:
    """Return a small network with ONNX Runtime's values."""
    case = Case(NETWORKS[network]())
    assert any(isinstance(node.op, Attention) for node in case.graph.nodes)
    return case


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("network", NETWORKS)
def test_network_is_exact_when_every_node_is_cut(network: str, axis: int) -> None:
    case = load(network)
    plan = cut_every_node(case.graph, DEVICES, axis, None)
    assert list(case.find_errors(plan, open_devices(DEVICES))) == []


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("network", NETWORKS)
def test_network_is_exact_under_random_plans(network: str, seed: int) -> None:
    case = load(network)
    plan = draw_plan(case.graph, DEVICES, np.random.default_rng(seed))
    assert list(case.find_errors(plan, open_devices(DEVICES))) == []
