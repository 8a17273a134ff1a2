"""Models that ask for too much are refused before anything is expanded, computed or allocated."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import TensorProto, helper, numpy_helper

import codl
from codl.errors import ModelError
from codl.frontend import load_graph
from codl.limits import Limits
from tests.exactness import DEVICES

pytestmark = pytest.mark.timeout(120)

node = helper.make_node
Arrays = Mapping[str, npt.NDArray[Any] | np.generic]


def integers(*values: int) -> npt.NDArray[np.int64]:
    return np.array(values, np.int64)


def floats(*shape: int) -> npt.NDArray[np.float32]:
    return np.ones(shape, np.float32)


def build(nodes: Sequence[Any], arrays: Arrays, *, shape: Sequence[int] = (1,), functions: Any = ()) -> bytes:
    """Return y of x by some nodes, as bytes."""
    graph = helper.make_graph(
        nodes,
        "bounds",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in arrays.items()],
    )
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=8, functions=list(functions))
    data: bytes = model.SerializeToString()
    return data


def with_constant(*nodes: Any, **arrays: Any) -> bytes:
    """Return y = x + mean(c), where some nodes compute c of constants."""
    mean = [node("ReduceMean", ["c"], ["mean"], keepdims=0), node("Add", ["x", "mean"], ["y"])]
    return build([*nodes, *mean], arrays)


def double(count: int) -> list[Any]:
    return [node("Concat", [f"c{i}", f"c{i}"], [f"c{i + 1}"], axis=0) for i in range(count)]


MANY = 10**9
CONSTANTS = {
    "fill": with_constant(node("ConstantOfShape", ["s"], ["c"]), s=integers(10**12)),
    "fill-within": with_constant(node("ConstantOfShape", ["s"], ["c"]), s=integers(MANY)),
    "tile": with_constant(node("Tile", ["a", "s"], ["c"]), a=floats(1), s=integers(MANY)),
    "expand": with_constant(node("Expand", ["a", "s"], ["c"]), a=floats(1), s=integers(MANY)),
    "range": with_constant(
        node("Range", ["a", "b", "d"], ["r"]),
        node("Cast", ["r"], ["c"], to=TensorProto.FLOAT),
        a=np.int64(0),
        b=np.int64(MANY),
        d=np.int64(1),
    ),
    "pad": with_constant(node("Pad", ["a", "s"], ["c"]), a=floats(1), s=integers(0, MANY)),
    "resize": with_constant(
        node("Resize", ["a", "", "", "s"], ["c"]), a=floats(1, 1, 1, 1), s=integers(1, 1, 30_000, 30_000)
    ),
    "one-hot": with_constant(
        node("OneHot", ["a", "d", "v"], ["c"]),
        a=integers(1, 2),
        d=integers(5 * 10**8),
        v=np.array([0, 1], np.float32),
    ),
    "gather": with_constant(
        node("Gather", ["a", "i"], ["c"]), a=floats(2, 40_000), i=np.zeros(40_000, np.int64)
    ),
    "broadcast": with_constant(node("Mul", ["a", "b"], ["c"]), a=floats(40_000, 1), b=floats(1, 40_000)),
    "product": with_constant(node("MatMul", ["a", "b"], ["c"]), a=floats(40_000, 1), b=floats(1, 40_000)),
    "einsum": with_constant(
        node("Einsum", ["a", "b"], ["c"], equation="i,j->ij"), a=floats(40_000), b=floats(40_000)
    ),
    "doubled": with_constant(*double(40), node("Identity", ["c40"], ["c"]), c0=floats(1)),
    "doubled-within": with_constant(*double(29), node("Identity", ["c29"], ["c"]), c0=floats(1)),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_that_would_fill_memory_are_refused(name: str) -> None:
    with pytest.raises(ModelError, match=r"tensor '.*': got .* at most .*Limits\.(tensor_elem|folded_byt)"):
        load_graph(CONSTANTS[name])


@pytest.mark.parametrize(
    ("model", "tensor"),
    [
        (build([node("Relu", ["x"], ["y"])], {}, shape=[1, 2, 2**40, 2**40]), "x"),
        (
            build(
                [node("Resize", ["x", "", "", "s"], ["y"])],
                {"s": integers(1, 1, 2**62, 2)},
                shape=[1, 1, 2, 2],
            ),
            "y",
        ),
        (build([node("Tile", ["x", "s"], ["y"])], {"s": integers(10**12)}), "y"),
    ],
    ids=["input", "resize", "tile"],
)
def test_tensors_beyond_the_limit_are_refused_by_name(model: bytes, tensor: str) -> None:
    with pytest.raises(ModelError, match=rf"tensor '{tensor}': got shape .*Limits\.tensor_elements"):
        codl.InferenceSession(model, codl.SessionOptions(planner=f"single:{DEVICES[0]}"))


def test_constants_of_the_size_of_the_weights_are_no_excess() -> None:
    model = with_constant(node("Neg", ["a"], ["c"]), a=floats(64))

    load_graph(model, limits=Limits(folded_bytes=1))


def make_functions(depth: int, calls: int) -> list[Any]:
    """Return functions F0, F1, ...: each calls the next one some times, the last one computes."""
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    made = []
    for level in range(depth):
        names = ["a", *(f"t{i}" for i in range(calls - 1)), "b"]
        kind, domain = ("Relu", "") if level == depth - 1 else (f"F{level + 1}", "f")
        inner = [node(kind, [names[i]], [names[i + 1]], domain=domain) for i in range(calls)]
        made.append(helper.make_function("f", f"F{level}", ["a"], ["b"], inner, sets))
    return made


CALL = [node("F0", ["x"], ["y"], domain="f")]


@pytest.mark.parametrize(
    ("depth", "calls", "limit"), [(17, 2, "nodes"), (50, 2, "nodes"), (16, 9, "nodes"), (1000, 1, "nesting")]
)
def test_functions_are_counted_without_expanding_them(depth: int, calls: int, limit: str) -> None:
    with pytest.raises(ModelError, match=rf"Limits\.{limit}"):
        load_graph(build(CALL, {}, functions=make_functions(depth, calls)))


def test_nodes_and_calls_are_counted_exactly() -> None:
    model = build(CALL, {}, functions=make_functions(3, 2))  # calls: 1 + 2 + 4; nodes: 8

    load_graph(model, limits=Limits(nodes=8, function_calls=7, nesting=3))
    for passed in ({"nodes": 7}, {"function_calls": 6}, {"nesting": 2}):
        with pytest.raises(ModelError, match=rf"Limits\.{next(iter(passed))}"):
            load_graph(model, limits=Limits(**passed))


def test_a_function_that_calls_itself_is_refused() -> None:
    functions = make_functions(2, 1)
    functions[1].node[0].op_type, functions[1].node[0].domain = "F0", "f"

    with pytest.raises(ModelError, match="call of itself"):
        load_graph(build(CALL, {}, functions=functions))


def test_branches_are_counted_as_they_are_nested() -> None:
    def wrap(inner: Any) -> Any:
        name = inner.node[0].output[0]
        output = helper.make_tensor_value_info(f"{name}i", TensorProto.FLOAT, None)
        choice = node("If", ["c"], [f"{name}i"], then_branch=inner, else_branch=inner)
        return helper.make_graph([choice], "branch", [], [output])

    leaf = helper.make_graph(
        [node("Relu", ["x"], ["o"])],
        "leaf",
        [],
        [helper.make_tensor_value_info("o", TensorProto.FLOAT, None)],
    )
    outer = wrap(wrap(leaf)).node[0]
    outer.output[0] = "y"
    model = build([outer], {"c": np.bool_(True)})  # an If, two of them, four leaves

    load_graph(model, limits=Limits(nodes=7, nesting=2))
    with pytest.raises(ModelError, match=r"got 7 nodes .* at most 6"):
        load_graph(model, limits=Limits(nodes=6))
    with pytest.raises(ModelError, match="more than 1 deep"):
        load_graph(model, limits=Limits(nesting=1))


def test_long_vectors_are_not_followed_value_by_value() -> None:
    length = 2**20
    nodes = [
        node("Add", ["x", "x"], ["a"]),
        node("Shape", ["a"], ["s"]),
        node("ConstantOfShape", ["s"], ["c"]),
        node("Add", ["a", "c"], ["y"]),
    ]

    assert load_graph(build(nodes, {}, shape=[length])).shape("y") == (length,)


def test_planned_bytes_are_compared_before_memory_is_allocated() -> None:
    model = build([node("Relu", ["x"], ["y"])], {}, shape=[1, 1024])

    def start(planned_bytes: int) -> codl.InferenceSession:
        options = codl.SessionOptions(planner=f"single:{DEVICES[0]}")
        options.limits = Limits(planned_bytes=planned_bytes)
        return codl.InferenceSession(model, options)

    start(2 * 4 * 1024).close()
    with pytest.raises(ModelError, match=r"got a plan of 8192 bytes .*Limits\.planned_bytes"):
        start(2 * 4 * 1024 - 1)


def test_planned_bytes_bound_plans_without_a_device_too() -> None:
    model = build([node("Relu", ["x"], ["y"])], {}, shape=[1, 1024])

    with pytest.raises(ModelError, match=r"Limits\.planned_bytes"):
        codl.plan(model, devices=DEVICES[:1], limits=Limits(planned_bytes=100))
