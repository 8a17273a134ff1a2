"""Tests of the benchmark networks of ``tools/models.py``."""

from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest

from tools.models import main
from tools.networks import NAMES, build, outline
from tools.networks.batch import set_batch

OWN = ("vgg16", "resnet50", "yolov2", "mobilenet_v2", "posenet", "fast_style_transfer", "retinaface")
LIGHT = tuple(name for name in NAMES if name not in OWN)
SMALL_LIGHT = ("squeezenet", "shufflenet")

OPERATORS = {
    "vgg16": {"Conv", "Relu", "MaxPool", "Flatten", "Gemm"},
    "resnet50": {
        "Conv",
        "BatchNormalization",
        "Relu",
        "MaxPool",
        "Add",
        "GlobalAveragePool",
        "Flatten",
        "Gemm",
    },
    "yolov2": {"Conv", "BatchNormalization", "LeakyRelu", "MaxPool", "SpaceToDepth", "Concat"},
    "mobilenet_v2": {
        "Conv",
        "BatchNormalization",
        "Clip",
        "Add",
        "GlobalAveragePool",
        "Flatten",
        "Gemm",
    },
    "posenet": {"Conv", "Relu", "MaxPool", "Concat"},
    "fast_style_transfer": {"Conv", "InstanceNormalization", "Relu", "Add", "Resize"},
    "retinaface": {
        "Conv",
        "BatchNormalization",
        "Relu",
        "MaxPool",
        "Add",
        "Resize",
        "Concat",
        "Flatten",
    },
}


def run(model: onnx.ModelProto, *, seed: int = 7) -> npt.NDArray[np.float32]:
    """Return the output of ONNX Runtime for standard-normal images."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (data,) = (each for each in session.get_inputs() if "data" in each.name or each.name == "input")
    images = np.random.default_rng(seed).standard_normal(data.shape, dtype=np.float32)
    output: npt.NDArray[np.float32] = session.run(None, {data.name: images})[0]
    assert list(output.shape) == session.get_outputs()[0].shape
    return output


def logits(model: onnx.ModelProto, output: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the logits of each image up to a constant, whether or not a softmax follows them."""
    flat = output.reshape(len(output), -1)
    return np.log(flat) if model.graph.node[-1].op_type == "Softmax" else flat


def tensor_shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor, by ONNX's own shape inference."""
    graph = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True).graph
    return {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in (*graph.input, *graph.value_info, *graph.output)
    }


def count_macs(model: onnx.ModelProto) -> int:
    """Return the multiply-accumulates of all convolutions and fully connected layers."""
    shapes = tensor_shapes(model)
    total = 0
    for node in model.graph.node:
        if node.op_type in ("Conv", "Gemm"):
            sums_of = np.prod(shapes[node.input[1]][1:])
            total += int(np.prod(shapes[node.output[0]]) * sums_of)
    return total


def conv_sizes(model: onnx.ModelProto) -> Counter[tuple[int, int, int, int, int, int]]:
    """Return how often each (in H, in W, IC, OC, kernel, stride) occurs among the convolutions."""
    shapes = tensor_shapes(model)
    sizes: Counter[tuple[int, int, int, int, int, int]] = Counter()
    for node in model.graph.node:
        if node.op_type == "Conv":
            _, in_channels, height, width = shapes[node.input[0]]
            strides = next(each.ints for each in node.attribute if each.name == "strides")
            out_channels, kernel = shapes[node.input[1]][0], shapes[node.input[1]][2]
            sizes[height, width, in_channels, out_channels, kernel, strides[0]] += 1
    return sizes


@pytest.mark.parametrize("width", [0.25, 0.1])
@pytest.mark.parametrize("name", OWN)
def test_tiny_network_runs_with_logits_of_a_wanted_spread(name: str, width: float) -> None:
    model = build(name, size=64, width=width)

    onnx.checker.check_model(model, full_check=True)
    output = run(model)

    assert np.isfinite(output).all()
    assert 1 < output.std() < 5


@pytest.mark.parametrize("name", OWN)
def test_own_network_has_the_agreed_form(name: str) -> None:
    model = build(name, size=64, width=0.1, batch=2)

    assert model.ir_version == 8
    assert [(each.domain, each.version) for each in model.opset_import] == [("", 17)]
    assert [value.name for value in model.graph.input] == ["input"]
    assert [value.name for value in model.graph.output] == ["output"]
    assert {node.op_type for node in model.graph.node} == OPERATORS[name]
    assert len({node.name for node in model.graph.node}) == len(model.graph.node)
    assert run(model).shape[0] == 2


@pytest.mark.parametrize("name", OWN)
def test_weights_depend_on_the_seed_alone(name: str) -> None:
    first = build(name, size=64, width=0.1, seed=3)

    again = build(name, size=64, width=0.1, seed=3)
    batched = build(name, size=64, width=0.1, seed=3, batch=4)
    other = build(name, size=64, width=0.1, seed=4)

    assert first.SerializeToString(deterministic=True) == again.SerializeToString(deterministic=True)
    weights = [tensor.raw_data for tensor in first.graph.initializer]
    assert weights == [tensor.raw_data for tensor in batched.graph.initializer]
    assert weights != [tensor.raw_data for tensor in other.graph.initializer]


def test_batch_norm_statistics_are_those_of_its_input() -> None:
    model = build("resnet50", size=64, width=0.25)
    norms = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    for node in norms:
        kind = onnx.TensorProto.FLOAT
        model.graph.output.append(onnx.helper.make_tensor_value_info(node.input[0], kind, None))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    images = np.random.default_rng(7).standard_normal((64, 3, 64, 64), dtype=np.float32)

    sources = session.run([node.input[0] for node in norms], {"input": images})

    for node, source in zip(norms, sources, strict=True):
        deviation = np.sqrt(weights[node.input[4]])
        normalized_mean = (source.mean(axis=(0, 2, 3)) - weights[node.input[3]]) / deviation
        normalized_deviation = source.std(axis=(0, 2, 3)) / deviation
        assert np.abs(normalized_mean).mean() < 0.2, node.name
        assert np.abs(normalized_deviation - 1).mean() < 0.2, node.name


def test_width_gives_channel_counts_that_are_no_multiple_of_eight() -> None:
    sizes = conv_sizes(outline("mobilenet_v2", size=64, width=0.5))

    out_channels = {size[3] for size in sizes}
    assert 12 in out_channels
    assert all(channels % 4 == 0 for channels in out_channels)


@pytest.mark.parametrize(
    ("name", "convolutions", "macs"),
    [
        ("vgg16", 13, 15_470_264_320),
        ("resnet50", 53, 4_089_184_256),
        ("mobilenet_v2", 52, 300_774_272),
        ("yolov2", 23, 15_056_737_280 + 26 * 26 * 512 * 128),
        ("posenet", 31, 30_162_288_640),
        ("fast_style_transfer", 16, 35_920_281_600 + 9 * 64 * (240 * 320 * 128 + 480 * 640 * 32)),
        ("retinaface", 91, 92_443_699_200),
    ],
)
def test_full_size_network_has_the_published_work(name: str, convolutions: int, macs: int) -> None:
    # A summand is a layer that the published sizes leave out: the pass in yolov2, and the two
    # convolutions of fast_style_transfer that stand for transposed ones.
    model = outline(name)

    assert sum(node.op_type == "Conv" for node in model.graph.node) == convolutions
    assert count_macs(model) == macs


@pytest.mark.parametrize(
    ("name", "values"),
    [("vgg16", 138_357_544), ("resnet50", 25_557_032), ("mobilenet_v2", 3_504_872)],
)
def test_full_size_network_has_the_published_number_of_weights(name: str, values: int) -> None:
    weights = outline(name).graph.input[1:]

    learnt = [value for value in weights if not value.name.endswith((".mean", ".var"))]
    shapes = [[dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in learnt]
    assert sum(int(np.prod(shape)) for shape in shapes) == values


@pytest.mark.parametrize(
    ("name", "size", "times"),
    [
        ("vgg16", (14, 14, 512, 512, 3, 1), 3),
        ("yolov2", (13, 13, 1536, 1024, 3, 1), 1),
        ("yolov2", (13, 13, 1024, 125, 1, 1), 1),
        ("posenet", (32, 32, 149, 128, 7, 1), 2),
        ("posenet", (32, 32, 128, 128, 7, 1), 8),
        ("fast_style_transfer", (120, 160, 128, 128, 3, 1), 10),
        ("fast_style_transfer", (480, 640, 32, 3, 9, 1), 1),
        ("retinaface", (640, 640, 3, 64, 7, 2), 1),
        ("retinaface", (160, 160, 256, 64, 3, 1), 2),
        ("retinaface", (40, 40, 512, 256, 1, 1), 2),
        ("retinaface", (20, 20, 2048, 256, 1, 1), 1),
        ("retinaface", (10, 10, 256, 12, 3, 1), 1),
    ],
)
def test_full_size_network_has_the_measured_layers(
    name: str, size: tuple[int, int, int, int, int, int], times: int
) -> None:
    assert conv_sizes(outline(name))[size] == times


@pytest.mark.parametrize("name", SMALL_LIGHT)
def test_light_model_runs_with_logits_of_a_wanted_spread(name: str) -> None:
    check_light_model(name, batch=1)
    check_light_model(name, batch=2)


@pytest.mark.heavy
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", LIGHT)
def test_every_light_model_runs_with_logits_of_a_wanted_spread(name: str, batch: int) -> None:
    check_light_model(name, batch=batch)


def check_light_model(name: str, *, batch: int) -> None:
    model = build(name, batch=batch)

    onnx.checker.check_model(model, full_check=True)
    output = run(model)

    assert model.ir_version == 3
    assert {each.name for each in model.graph.initializer} < {each.name for each in model.graph.input}
    assert all(node.op_type != "ConstantOfShape" for node in model.graph.node)
    assert len(output) == batch
    assert 1 < logits(model, output).std(axis=1).mean() < 5


@pytest.mark.heavy
@pytest.mark.parametrize("name", OWN)
def test_full_size_network_runs_with_logits_of_a_wanted_spread(name: str) -> None:
    assert 1 < run(build(name)).std() < 5


@pytest.mark.parametrize(
    ("name", "size", "width", "batch", "message"),
    [
        ("lenet", None, 1.0, 1, "unknown network 'lenet'"),
        ("squeezenet", 64, 1.0, 1, "no other size or width"),
        ("squeezenet", None, 0.5, 1, "no other size or width"),
        ("yolov2", 100, 1.0, 1, "multiple of 32"),
        ("resnet50", 0, 1.0, 1, "multiple of 1"),
        ("resnet50", 64, 0.0, 1, "width is 0"),
        ("resnet50", 64, 0.1, 0, "batch is 0"),
    ],
)
def test_build_refuses(name: str, size: int | None, width: float, batch: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        outline(name, size=size, width=width, batch=batch)


@pytest.mark.parametrize(
    ("shape", "message"), [([2, 3], "baked shape"), (None, "computes its shape")], ids=["baked", "computed"]
)
def test_set_batch_refuses_a_reshape_that_it_cannot_change(shape: list[int] | None, message: str) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[1, 6] x, int64[2] shape) => (float[2, 3] y) { y = Reshape(x, shape) }"""
    )
    if shape is not None:
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(shape), "shape"))

    with pytest.raises(ValueError, match=message):
        set_batch(model, batch=4)


def test_script_writes_the_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "squeezenet.onnx"

    status = main(["squeezenet", "-o", str(path), "--seed", "5", "--batch", "2"])

    assert status == 0
    assert onnx.load(path) == build("squeezenet", seed=5, batch=2)
    assert str(path) in capsys.readouterr().out


def test_script_says_in_one_line_why_it_cannot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["squeezenet", "-o", str(tmp_path / "missing" / "model.onnx")])

    assert status == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
