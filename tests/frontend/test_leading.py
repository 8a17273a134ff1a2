"""Layers along the last axis agree on the axes before it: reshapes among them vanish, and values stay."""

import random

import pytest

from codl.ir.graph import Graph
from codl.ir.ops import Attention, Reshape
from tests.executor import encoders
from tests.executor.encoders import NETWORKS, Sketch
from tests.frontend.onnx_models import check_host, check_translation

Shape = tuple[int, ...]
SEEDS = range(40)


def finish(net: Sketch, outputs: list[str], *inputs: Shape) -> Graph:
    """Return the graph of a network of inputs `x`, `y` and so on, whose values are compared."""
    return check_translation(net.finish(dict(zip("xyz", inputs, strict=False)), outputs))


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.nodes]


def test_layers_between_forms_of_rows_take_one() -> None:
    net = Sketch()
    inside = net.linear(net.reshape(net.norm("x", 8), 5, 1, 8), 8, 6)
    last = net.gelu(net.linear(net.reshape(inside, 5, 6), 6, 8))
    graph = finish(net, [net.add("Add", net.reshape(last, 1, 5, 8), "x")], (1, 5, 8))
    assert kinds(graph) == ["LayerNorm", "MatMul", "MatMul"]


def test_torchvisions_encoder_has_no_reshapes_of_rows() -> None:
    net = Sketch()
    mixed = encoders.joint_attention(net, net.norm("x", 16), tokens=7, width=16, heads=2)
    graph = finish(net, [net.add("Add", mixed, "x")], (1, 7, 16))
    assert kinds(graph) == ["LayerNorm", "MatMul", "Attention", "MatMul"]
    assert [node.op.row_axis for node in graph.nodes if isinstance(node.op, Attention)] == [1]


@pytest.mark.parametrize("batch", [2, 3])
@pytest.mark.parametrize("tokens", [1, 5])
def test_attention_over_several_sequences_keeps_its_axes(batch: int, tokens: int) -> None:
    net = Sketch()
    rows = net.reshape(net.norm("x", 16), batch, tokens, 16)
    mixed = encoders.attention(net, rows, batch=batch, tokens=tokens, width=16, heads=2)
    finish(net, [net.reshape(net.add("Relu", mixed), batch * tokens, 16)], (batch * tokens, 16))


@pytest.mark.parametrize("shape", [(), (8,), (1, 8), (1, 1, 8), (1, 5, 8), (1, 5, 1)], ids=str)
def test_constants_take_the_form_of_their_layer(shape: Shape) -> None:
    net = Sketch()
    whole = net.reshape(net.linear("x", 8, 8), 1, 5, 8)
    scaled = net.add("Mul", whole, net.weight(*shape, scale=1.0))
    graph = finish(net, [net.linear(net.reshape(scaled, 5, 8), 8, 4)], (5, 8))
    assert "Reshape" not in kinds(graph)


def test_outputs_and_other_readers_keep_their_forms() -> None:
    net = Sketch()
    first = net.linear("x", 8, 8)
    second = net.reshape(first, 1, 6, 8)
    third = net.linear(net.reshape(net.norm(second, 8), 6, 1, 8), 8, 8)
    turned = net.add("Transpose", third, perm=(1, 2, 0))
    graph = finish(net, [second, turned, net.reshape(third, 6, 8)], (6, 8))
    assert [graph.shape(name) for name in graph.outputs] == [(1, 6, 8), (1, 8, 6), (6, 8)]


def test_images_stay_images() -> None:
    net = Sketch()
    image = net.add("Relu", net.add("Conv", "x", net.weight(4, 3, 1, 1)))
    graph = finish(net, [net.add("Tanh", net.reshape(image, 1, 20, 6))], (1, 3, 5, 6))
    assert kinds(graph) == ["Conv2d", "Reshape", "Unary"]


def test_products_along_the_last_of_four_axes_are_of_matrices() -> None:
    net = Sketch()
    inside = net.gelu(net.linear(net.norm("x", 8), 8, 16))
    graph = finish(net, [net.add("Add", net.linear(inside, 16, 8), "x")], (2, 3, 5, 8))
    assert kinds(graph) == ["Reshape", "LayerNorm", "MatMul", "MatMul", "Reshape"]
    assert [len(graph.shape(node.output)) for node in graph.nodes] == [3, 3, 3, 3, 4]


def test_the_host_reads_the_forms_that_it_knows() -> None:
    net = Sketch()
    rows = net.norm(net.reshape(net.linear("x", 8, 8), 6, 1, 8), 8)
    sine = net.add("Asinh", rows)
    check_host(net.finish({"x": (1, 6, 8)}, [net.reshape(rows, 6, 8), sine]), reason="Asinh")


def grow(rng: random.Random, net: Sketch, known: list[tuple[str, Shape]]) -> tuple[str, Shape]:
    """Add a random layer behind one of some tensors; return its output and the shape of that."""
    x, shape = rng.choice(known[-3:])
    last, rows = shape[-1], 12
    match rng.choice(("MatMul", "LayerNorm", "Softmax", "Relu", "Add", "Slice", "Concat", "Reshape", "Turn")):
        case "MatMul":
            return net.add("MatMul", x, net.weight(last, 4)), (*shape[:-1], 4)
        case "LayerNorm":
            return net.norm(x, last), shape
        case "Softmax":
            return net.add("Softmax", x, axis=-1), shape
        case "Add":
            others = [name for name, other in known if other == shape]
            lead = rng.choice(((), (1,) * (len(shape) - 1), shape[:-1]))
            constant = net.weight(*lead, rng.choice((1, last)), scale=1.0)
            return net.add("Add", x, rng.choice((*others, constant))), shape
        case "Concat":
            return net.add("Concat", x, x, axis=-1), (*shape[:-1], 2 * last)
        case "Turn":
            return net.add("Transpose", net.add("Transpose", x, perm=range(len(shape))[::-1])), shape
        case "Reshape" | "Slice":
            lead = rng.choice(((1, rows), (rows, 1), (rows,), (3, 4), (1, 3, 4), (2, 2, 3)))
            return net.reshape(x, *lead, last), (*lead, last)
    return net.add("Relu", x), shape


@pytest.mark.parametrize("seed", SEEDS)
def test_random_layers_keep_their_values(seed: int) -> None:
    rng, net = random.Random(seed), Sketch()
    known: list[tuple[str, Shape]] = [("x", (1, 12, 4))]
    for _ in range(rng.randint(4, 14)):
        known.append(grow(rng, net, known))
    outputs = {known[-1][0], *(name for name, _ in known[1:] if rng.random() < 0.1)}
    graph = finish(net, sorted(outputs), (1, 12, 4))
    assert not graph.host_models


@pytest.mark.parametrize("network", NETWORKS)
def test_networks_reshape_no_rows_between_layers(network: str) -> None:
    graph = check_translation(NETWORKS[network]())
    for node in graph.nodes:
        before = graph.producers.get(node.inputs[0])
        if isinstance(node.op, Reshape) and before is not None:
            assert not isinstance(before.op, Reshape)
