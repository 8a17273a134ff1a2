"""Broken and unsupported models: typed errors that name file, node, what came and what was expected."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from codl.errors import ModelError, UnsupportedError
from codl.frontend import load_graph
from tests.frontend.onnx_models import check_host, make_model, node, random_array


def conv_model(
    *,
    weight: tuple[int, ...] = (4, 3, 3, 3),
    bias: int = 4,
    x: tuple[int, ...] = (1, 3, 8, 8),
    **attributes: Any,
) -> onnx.ModelProto:
    conv = node("Conv", ["x", "w", "b"], ["y"], name="stem", **attributes)
    constants = {"w": random_array(*weight), "b": random_array(bias)}
    return make_model([conv], inputs={"x": x}, constants=constants)


def pool_model(op_type: str = "MaxPool", **attributes: Any) -> onnx.ModelProto:
    return make_model([node(op_type, ["x"], ["y"], name="stem", **attributes)], inputs={"x": [1, 3, 8, 8]})


def message(data: bytes, tmp_path: Path, *, error: type[ModelError] = ModelError) -> str:
    """Return what loading the file says, having asserted whether it is one of unsupported models."""
    path = tmp_path / "net.onnx"
    path.write_bytes(data)
    with pytest.raises(ModelError) as caught:
        load_graph(path)
    assert isinstance(caught.value, UnsupportedError) is (error is UnsupportedError)
    text = str(caught.value)
    assert all(
        line.startswith("net.onnx: ") and "got " in line and "expected" in line for line in text.splitlines()
    )
    return text


WINDOWS: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "group 0": (lambda: conv_model(group=0), "got group 0, expected 1 or more"),
    "negative group": (lambda: conv_model(group=-1), "got group -1, expected 1 or more"),
    "stride 0": (lambda: conv_model(strides=[0, 1]), "got strides [0, 1], expected 2 values of 1 or more"),
    "one stride": (lambda: conv_model(strides=[1]), "got strides [1], expected 2 values of 1 or more"),
    "dilation 0": (
        lambda: conv_model(dilations=[1, 0]),
        "got dilations [1, 0], expected 2 values of 1 or more",
    ),
    "negative pads": (
        lambda: conv_model(pads=[-1, 0, 0, 0]),
        "got pads [-1, 0, 0, 0], expected 4 values of 0 or more",
    ),
    "kernel larger than input": (
        lambda: conv_model(weight=(4, 3, 9, 12), pads=[0, 1, 0, 1]),
        "got a kernel that reaches over [9, 12], expected at most the padded input's [8, 10]",
    ),
    "dilated kernel larger than input": (
        lambda: conv_model(dilations=[4, 4]),
        "got a kernel that reaches over [9, 9], expected at most the padded input's [8, 8]",
    ),
    "unknown auto_pad": (lambda: conv_model(auto_pad="SAME"), "got auto_pad SAME, expected one of NOTSET"),
    "wrong channels": (
        lambda: conv_model(weight=(4, 2, 3, 3)),
        "got weight [4, 2, 3, 3] in 1 groups over input [1, 3, 8, 8], expected weight [4, 3, 3, 3]",
    ),
    "indivisible groups": (
        lambda: conv_model(weight=(4, 1, 3, 3), group=3),
        "got weight [4, 1, 3, 3] in 3 groups over input [1, 3, 8, 8], expected",
    ),
    "kernel_shape against weight": (
        lambda: conv_model(kernel_shape=[5, 5]),
        "got weight [4, 3, 3, 3] in 1 groups over input [1, 3, 8, 8], expected weight [4, 3, 5, 5]",
    ),
    "weight that is a number": (
        lambda: conv_model(weight=()),
        "got weight [] over input [1, 3, 8, 8], expected as many axes",
    ),
    "weight of another rank": (
        lambda: conv_model(weight=(4, 3, 3)),
        "got weight [4, 3, 3] over input [1, 3, 8, 8], expected as many axes",
    ),
    "wrong bias": (lambda: conv_model(bias=3), "got bias [3], expected [4]"),
    "attribute of another type": (
        lambda: conv_model(strides=2),
        "got attribute strides of type INT, expected INTS",
    ),
    "pool without kernel": (pool_model, "got no attribute kernel_shape, expected"),
    "pool kernel 0": (lambda: pool_model(kernel_shape=[0, 2]), "got kernel_shape [0, 2], expected"),
    "pool stride 0": (
        lambda: pool_model("AveragePool", kernel_shape=[2, 2], strides=[2, 0]),
        "got strides [2, 0], expected",
    ),
    "pool larger than input": (
        lambda: pool_model(kernel_shape=[9, 2], ceil_mode=1),
        "got a kernel that reaches over [9, 2], expected at most the padded input's [8, 8]",
    ),
    "pool of another rank": (
        lambda: pool_model(kernel_shape=[2, 2, 2], ceil_mode=1),
        "got a kernel of 3 axes over an input of shape [1, 3, 8, 8], expected 2 axes",
    ),
    "block that divides nothing": (
        lambda: pool_model("SpaceToDepth", blocksize=3),
        "got blocksize 3 over input [1, 3, 8, 8], expected a positive divisor",
    ),
}


@pytest.mark.parametrize("case", WINDOWS)
def test_names_the_node_and_what_is_wrong_with_it(case: str, tmp_path: Path) -> None:
    build, expected = WINDOWS[case]

    text = message(build().SerializeToString(), tmp_path)

    assert "node 'stem' (" in text
    assert expected in text


def test_finds_a_broken_node_inside_a_branch(tmp_path: Path) -> None:
    branches = {
        f"{name}_branch": onnx.helper.make_graph(
            [node("MaxPool", ["x"], [name], name=name, kernel_shape=[2, 2], strides=[0, 1])],
            name,
            [],
            [onnx.helper.make_tensor_value_info(name, 1, None)],
        )
        for name in ("then", "else")
    }
    choice = node("If", ["c"], ["y"], name="choice", **branches)
    model = make_model([choice], inputs={"x": [1, 3, 8, 8]}, constants={"c": np.array(True)})

    text = message(model.SerializeToString(), tmp_path)

    assert "node 'then' (MaxPool): got strides [0, 1]" in text
    assert "node 'else' (MaxPool): got strides [0, 1]" in text


@pytest.mark.parametrize(
    ("op_type", "a", "b", "attributes"),
    [("MatMul", [2, 3], (4, 5), {}), ("Gemm", [2, 3], (4, 5), {}), ("Gemm", [2, 3], (3, 5), {"transB": 1})],
)
def test_names_matrices_that_do_not_fit(
    op_type: str, a: list[int], b: tuple[int, ...], attributes: dict[str, int], tmp_path: Path
) -> None:
    product = node(op_type, ["x", "w"], ["y"], name="head", **attributes)
    model = make_model([product], inputs={"x": a}, constants={"w": random_array(*b)})

    text = message(model.SerializeToString(), tmp_path)

    assert f"node 'head' ({op_type}): got A {a} times B {list(b)}, expected equal inner" in text


def test_names_statistics_that_do_not_fit(tmp_path: Path) -> None:
    constants = {name: random_array(3) for name in ("s", "t", "m")} | {"v": np.ones(4, np.float32)}
    norm = node("BatchNormalization", ["x", *constants], ["y"], name="norm")
    model = make_model([norm], inputs={"x": [1, 3, 2, 2]}, constants=constants)

    assert "node 'norm' (BatchNormalization): got var of shape [4], expected [3]" in message(
        model.SerializeToString(), tmp_path
    )


class TestFiles:
    def test_says_that_a_file_is_missing(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match=r"none\.onnx: got No such file"):
            load_graph(tmp_path / "none.onnx")

    def test_says_that_a_path_is_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="expected a readable ONNX file"):
            load_graph(tmp_path)

    def test_refuses_an_empty_file(self, tmp_path: Path) -> None:
        assert "got no bytes, expected an ONNX model" in message(b"", tmp_path)

    @pytest.mark.parametrize("seed", range(20))
    def test_refuses_random_bytes(self, seed: int, tmp_path: Path) -> None:
        message(random.Random(seed).randbytes(1 + 50 * seed), tmp_path)

    @pytest.mark.parametrize("kept", [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
    def test_refuses_a_truncated_file(self, kept: float, tmp_path: Path) -> None:
        data = conv_model().SerializeToString()

        message(data[: int(kept * len(data))], tmp_path)

    def test_refuses_every_truncation_at_the_end(self, tmp_path: Path) -> None:
        data = conv_model().SerializeToString()

        for missing in range(1, 40):
            message(data[:-missing], tmp_path)

    def test_refuses_an_old_ir(self, tmp_path: Path) -> None:
        model = conv_model()
        model.ir_version = 2

        assert "got IR version 2, expected 3 or later" in message(model.SerializeToString(), tmp_path)

    @pytest.mark.parametrize(("opset", "op_type", "kind"), [(1, "Not", 9), (6, "Abs", 1), (6, "Relu", 1)])
    def test_leaves_an_old_opset_to_the_host(self, opset: int, op_type: str, kind: int) -> None:
        types = {"x": kind, "y": kind}
        model = make_model([node(op_type, ["x"], ["y"])], inputs={"x": [9]}, opset=opset, types=types)

        check_host(model, reason=f"opset {opset}: kernels know 7 and later")

    def test_leaves_operators_that_a_later_opset_defines_anew_to_the_host(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("codl.frontend.translate.NEWEST_OPSET", 13)
        nodes = [node("Relu", ["x"], ["a"]), node("Softmax", ["a"], ["y"])]

        graph = check_host(
            make_model(nodes, inputs={"x": [2, 9]}), reason="Relu of opset 14: kernels know 13"
        )

        assert "Softmax" in {one.kind for one in graph.nodes}

    def test_refuses_a_model_without_opset(self, tmp_path: Path) -> None:
        model = make_model([node("Relu", ["x"], ["y"])], inputs={"x": [1]})
        del model.opset_import[:]

        assert "got no default opset, expected 1 or later" in message(model.SerializeToString(), tmp_path)

    def test_refuses_an_opset_of_the_future(self, tmp_path: Path) -> None:
        model = make_model([node("Relu", ["x"], ["y"])], inputs={"x": [1]}, opset=1000)

        message(model.SerializeToString(), tmp_path)

    def test_passes_on_what_onnx_runtime_refuses_in_one_line(self, tmp_path: Path) -> None:
        model = make_model([node("Softmax", ["x"], ["y"], name="head", axis=9)], inputs={"x": [1, 2]})

        text = message(model.SerializeToString(), tmp_path)

        assert "head" in text
        assert len(text.splitlines()) == 1


class TestWiring:
    def test_names_the_nodes_of_a_cycle(self, tmp_path: Path) -> None:
        nodes = [
            node("Relu", ["x"], ["a"], name="start"),
            node("Add", ["a", "c"], ["b"], name="first"),
            node("Relu", ["b"], ["c"], name="second"),
            node("Relu", ["c"], ["y"], name="end"),
        ]

        text = message(make_model(nodes, inputs={"x": [2]}).SerializeToString(), tmp_path)

        assert "got a cycle through nodes" in text
        assert "'first'" in text
        assert "'second'" in text
        assert "'start'" not in text

    def test_names_an_input_that_nothing_provides(self, tmp_path: Path) -> None:
        model = make_model([node("Add", ["x", "q"], ["y"], name="sum")], inputs={"x": [2]})

        text = message(model.SerializeToString(), tmp_path)

        assert "node 'sum' (Add): got input 'q' that nothing provides" in text

    def test_names_a_tensor_with_two_producers(self, tmp_path: Path) -> None:
        nodes = [node("Relu", ["x"], ["y"]), node("Relu", ["x"], ["y"])]

        text = message(make_model(nodes, inputs={"x": [2]}).SerializeToString(), tmp_path)

        assert "tensor 'y': got 2 producers, expected 1" in text

    def test_names_an_output_that_nothing_writes(self, tmp_path: Path) -> None:
        model = make_model([node("Relu", ["x"], ["a"])], inputs={"x": [2]}, outputs=["a", "y"])

        assert "output 'y': got no node that writes it" in message(model.SerializeToString(), tmp_path)


UNSUPPORTED: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "operators": (
        lambda: make_model(
            [
                node("Erf", ["x"], ["a"], name="e"),
                node("Erf", ["a"], ["b"]),
                node("Cos", ["b"], ["y"], name="c"),
            ],
            inputs={"x": [2]},
        ),
        "no kernel for Cos",
    ),
    "3-D conv": (
        lambda: conv_model(weight=(4, 3, 3, 3, 3), x=(1, 3, 8, 8, 8)),
        "node 'stem' (Conv): got an input of 5 axes, expected 4",
    ),
    "computed weight": (
        lambda: make_model(
            [node("Conv", ["x", "w"], ["y"], name="stem")], inputs={"x": [1, 3, 8, 8], "w": [4, 3, 3, 3]}
        ),
        "node 'stem' (Conv): got input 'w' computed at run time, expected a constant",
    ),
    "5 axes": (
        lambda: make_model(
            [node("Reshape", ["x", "s"], ["y"], name="split")],
            inputs={"x": [2, 3, 4]},
            constants={"s": np.array([2, 3, 2, 2, 1])},
        ),
        "node 'split' (Reshape): got tensor 'y' of shape [2, 3, 2, 2, 1], expected up to 4 axes",
    ),
    "a clip whose limit is fed": (
        lambda: make_model([node("Clip", ["x", "low"], ["y"], name="c")], inputs={"x": [2, 3], "low": []}),
        "node 'c' (Clip): got input 'low' computed at run time, expected a constant",
    ),
}


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_leaves_to_the_host_what_has_no_kernel(case: str) -> None:
    build, expected = UNSUPPORTED[case]

    check_host(build(), reason=expected)
