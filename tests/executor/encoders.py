"""Small networks of today's layers, as exporters spell them: attention, ConvNeXt, squeeze-excitation."""

from collections.abc import Callable, Mapping, Sequence
from math import sqrt

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]


class Sketch:
    """An ONNX graph under construction: each method adds a node and returns its output's name."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        """Add a node; where it has several outputs, they are called `<name>.<number>`."""
        name = f"{kind.lower()}{len(self._nodes)}"
        names = [name] if outputs == 1 else [f"{name}.{number}" for number in range(outputs)]
        self._nodes.append(helper.make_node(kind, list(inputs), names, name=name, **attributes))
        return name

    def weight(self, *shape: int, scale: float | None = None, around: float = 0.0) -> str:
        """Add random weights; by default they keep the size of what they are multiplied with."""
        spread = 1 / sqrt(np.prod(shape[1:]) if len(shape) > 2 else shape[0]) if scale is None else scale
        return self.constant(around + spread * self._rng.standard_normal(shape))

    def constant(self, value: object, kind: type[np.generic] = np.float32) -> str:
        """Add a constant."""
        name = f"constant{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        """Add a product with a constant matrix, and a bias."""
        product = self.add("MatMul", x, self.weight(inputs, outputs))
        return self.add("Add", product, self.weight(outputs, scale=0.1))

    def norm(self, x: str, channels: int) -> str:
        """Add a layer normalization along the last axis."""
        scale, shift = self.weight(channels, scale=0.1, around=1), self.weight(channels, scale=0.1)
        return self.add("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-6)

    def gelu(self, x: str) -> str:
        """Add a Gelu of single nodes."""
        erf = self.add("Erf", self.add("Div", x, self.constant(sqrt(2))))
        gate = self.add("Add", erf, self.constant(1))
        return self.add("Mul", self.add("Mul", x, gate), self.constant(0.5))

    def reshape(self, x: str, *shape: int) -> str:
        """Add a Reshape."""
        return self.add("Reshape", x, self.constant(shape, np.int64))

    def finish(self, inputs: Mapping[str, Shape], outputs: Sequence[str]) -> onnx.ModelProto:
        """Return the model."""
        graph = helper.make_graph(
            self._nodes,
            "sketch",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            self._constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def attention(net: Sketch, x: str, *, tokens: int, width: int, heads: int, batch: int = 1) -> str:
    """Add self-attention of several heads, each with a projection of its own, as BERT is exported."""
    size = width // heads

    def split(order: Shape) -> str:
        return net.add(
            "Transpose", net.reshape(net.linear(x, width, width), batch, tokens, heads, size), perm=order
        )

    query, key, value = split((0, 2, 1, 3)), split((0, 2, 3, 1)), split((0, 2, 1, 3))
    scores = net.add("Div", net.add("MatMul", query, key), net.constant(sqrt(size)))
    mixed = net.add("MatMul", net.add("Softmax", scores, axis=-1), value)
    joined = net.reshape(net.add("Transpose", mixed, perm=(0, 2, 1, 3)), batch, tokens, width)
    return net.linear(joined, width, width)


def joint_attention(net: Sketch, x: str, *, tokens: int, width: int, heads: int, batch: int = 1) -> str:
    """Add self-attention whose projections are one product, as torchvision's ViT is exported."""
    size = width // heads
    first = net.add("Transpose", x, perm=(1, 0, 2))
    joint = net.reshape(net.linear(first, width, 3 * width), tokens, batch, 3, width)
    turned = net.add(
        "Transpose", net.add("Unsqueeze", joint, net.constant([0], np.int64)), perm=(3, 1, 2, 0, 4)
    )
    parts = net.add("Squeeze", turned, net.constant([-2], np.int64))

    def take(number: int, order: Shape) -> str:
        part = net.add("Gather", parts, net.constant(number, np.int64), axis=0)
        split = net.add("Transpose", net.reshape(part, tokens, batch * heads, size), perm=(1, 0, 2))
        return net.add("Transpose", net.reshape(split, batch, heads, tokens, size), perm=order)

    scale = net.constant(size**-0.25)
    query = net.add("Mul", take(0, (0, 1, 2, 3)), scale)
    key = net.add("Mul", take(1, (0, 1, 3, 2)), scale)
    shares = net.add("Softmax", net.add("MatMul", query, key), axis=-1)
    mixed = net.add("Transpose", net.add("MatMul", shares, take(2, (0, 1, 2, 3))), perm=(2, 0, 1, 3))
    out = net.add(
        "Gemm",
        net.reshape(mixed, tokens * batch, width),
        net.weight(width, width),
        net.weight(width, scale=0.1),
    )
    return net.add("Transpose", net.reshape(out, tokens, batch, width), perm=(1, 0, 2))


def feed_forward(net: Sketch, x: str, width: int) -> str:
    """Add two products around a Gelu."""
    return net.linear(net.gelu(net.linear(x, width, 4 * width)), 4 * width, width)


def bert(
    *, tokens: int = 20, width: int = 48, heads: int = 4, layers: int = 2, batch: int = 1
) -> onnx.ModelProto:
    """Return BERT's encoder behind its embeddings: normalization follows each sum."""
    net, x = Sketch(), "x"
    for _ in range(layers):
        mixed = attention(net, x, tokens=tokens, width=width, heads=heads, batch=batch)
        x = net.norm(net.add("Add", mixed, x), width)
        x = net.norm(net.add("Add", feed_forward(net, x, width), x), width)
    return net.finish({"x": (batch, tokens, width)}, [x])


def vit(
    *, image: int = 32, patch: int = 8, width: int = 48, heads: int = 4, layers: int = 2, batch: int = 1
) -> onnx.ModelProto:
    """Return a vision transformer: patches, a class token, places, encoder, a head."""
    net, side = Sketch(), image // patch
    tokens = side * side + 1
    patches = net.add(
        "Conv",
        "x",
        net.weight(width, 3, patch, patch),
        net.weight(width, scale=0.1),
        kernel_shape=[patch] * 2,
        strides=[patch] * 2,
    )
    columns = net.add("Transpose", net.reshape(patches, batch, width, side * side), perm=(0, 2, 1))
    x = net.add("Concat", net.weight(batch, 1, width, scale=0.02), columns, axis=1)
    x = net.add("Add", x, net.weight(1, tokens, width, scale=0.02))
    for _ in range(layers):
        x = net.add(
            "Add",
            joint_attention(net, net.norm(x, width), tokens=tokens, width=width, heads=heads, batch=batch),
            x,
        )
        x = net.add("Add", x, feed_forward(net, net.norm(x, width), width))
    first = net.add("Gather", net.norm(x, width), net.constant(0, np.int64), axis=1)
    logits = net.add("Gemm", first, net.weight(width, 10), net.weight(10, scale=0.1))
    return net.finish({"x": (batch, 3, image, image)}, [logits])


def _image_norm(net: Sketch, x: str, channels: int) -> str:
    """Add a layer normalization over the channels of an image."""
    moved = net.norm(net.add("Transpose", x, perm=(0, 2, 3, 1)), channels)
    return net.add("Transpose", moved, perm=(0, 3, 1, 2))


def convnext(*, image: int = 32, widths: tuple[int, ...] = (16, 32)) -> onnx.ModelProto:
    """Return stages of ConvNeXt blocks, then means and a head."""
    net, x, inputs = Sketch(), "x", 3
    for number, width in enumerate(widths):
        size = 2 if number else 4
        x = x if number == 0 else _image_norm(net, x, inputs)
        x = net.add(
            "Conv",
            x,
            net.weight(width, inputs, size, size),
            net.weight(width, scale=0.1),
            kernel_shape=[size] * 2,
            strides=[size] * 2,
        )
        x = x if number else _image_norm(net, x, width)
        inputs = width
        for _ in range(2):
            deep = net.add(
                "Conv",
                x,
                net.weight(width, 1, 7, 7),
                net.weight(width, scale=0.1),
                kernel_shape=[7, 7],
                pads=[3] * 4,
                group=width,
            )
            moved = net.norm(net.add("Transpose", deep, perm=(0, 2, 3, 1)), width)
            inner = net.add("Transpose", feed_forward(net, moved, width), perm=(0, 3, 1, 2))
            x = net.add("Add", net.add("Mul", inner, net.weight(width, 1, 1, scale=0.1, around=0.5)), x)
    flat = net.add("Flatten", _image_norm(net, net.add("GlobalAveragePool", x), inputs), axis=1)
    logits = net.add("Gemm", flat, net.weight(inputs, 10), net.weight(10, scale=0.1))
    return net.finish({"x": (1, 3, image, image)}, [logits])


def efficientnet(*, image: int = 32, width: int = 16) -> onnx.ModelProto:
    """Return inverted residuals with squeeze-excitation and SiLU."""
    net, wide = Sketch(), 4 * width

    def conv(x: str, outputs: int, inputs: int, *, size: int = 1, stride: int = 1, group: int = 1) -> str:
        return net.add(
            "Conv",
            x,
            net.weight(outputs, inputs // group, size, size),
            net.weight(outputs, scale=0.1),
            kernel_shape=[size] * 2,
            strides=[stride] * 2,
            pads=[size // 2] * 4,
            group=group,
        )

    def silu(x: str) -> str:
        return net.add("Mul", x, net.add("Sigmoid", x))

    x = silu(conv("x", width, 3, size=3, stride=2))
    for _ in range(2):
        deep = silu(conv(silu(conv(x, wide, width)), wide, wide, size=5, group=wide))
        mean = net.add("ReduceMean", deep, axes=[2, 3], keepdims=1)
        gate = net.add("Sigmoid", conv(silu(conv(mean, width // 4, wide)), wide, width // 4))
        x = net.add("Add", conv(net.add("Mul", gate, deep), width, wide), x)
    flat = net.add("Flatten", net.add("GlobalAveragePool", x), axis=1)
    logits = net.add("Gemm", flat, net.weight(width, 10), net.weight(10, scale=0.1))
    return net.finish({"x": (1, 3, image, image)}, [logits])


def inception(*, image: int = 32) -> onnx.ModelProto:
    """Return the first layers of GoogLeNet, whose responses are normalized, and a mean over tokens."""
    net = Sketch()
    conv = net.add("Conv", "x", net.weight(24, 3, 3, 3), net.weight(24, scale=0.1), kernel_shape=[3, 3])
    norm = net.add("LRN", net.add("Relu", conv), size=5, alpha=1e-2, beta=0.75, bias=1.0)
    pool = net.add("MaxPool", norm, kernel_shape=[3, 3], strides=[2, 2])
    again = net.add("LRN", pool, size=3, alpha=0.5, beta=0.5, bias=2.0)
    tokens = net.norm(net.add("Transpose", net.reshape(again, 1, 24, -1), perm=(0, 2, 1)), 24)
    mean = net.add("ReduceMean", tokens, axes=[1], keepdims=0)
    logits = net.add("Gemm", mean, net.weight(24, 10), net.weight(10, scale=0.1))
    return net.finish({"x": (1, 3, image, image)}, [net.add("Softmax", logits, axis=-1)])


def swin(
    *, side: int = 8, window: int = 4, width: int = 24, heads: int = 3, batch: int = 1
) -> onnx.ModelProto:
    """Return two blocks of attention in windows, the second one shifted, a merge of patches and a head."""
    net, count, size, tokens = Sketch(), side // window, width // heads, window * window
    windows = batch * count * count

    def cut(x: str, begin: int, end: int, axis: int) -> str:
        return net.add("Slice", x, *(net.constant([value], np.int64) for value in (begin, end, axis)))

    def shift(x: str, by: int) -> str:
        for axis in (1, 2):
            x = net.add("Concat", cut(x, by, 1 << 40, axis), cut(x, 0, by, axis), axis=axis)
        return x

    def turn(x: str, *split: int) -> str:
        return net.add("Transpose", net.reshape(x, batch, *split, width), perm=(0, 1, 3, 2, 4, 5))

    def attend(x: str, *, is_shifted: bool) -> str:
        rows = net.reshape(turn(x, count, window, count, window), windows, tokens, width)
        joint = net.reshape(net.linear(rows, width, 3 * width), windows, tokens, 3, heads, size)
        split = net.add("Split", net.add("Transpose", joint, perm=(2, 0, 3, 1, 4)), outputs=3, axis=0)
        query, key, value = (
            net.add("Squeeze", f"{split}.{part}", net.constant([0], np.int64)) for part in range(3)
        )
        scores = net.add("MatMul", query, net.add("Transpose", key, perm=(0, 1, 3, 2)))
        scores = net.add("Add", scores, net.weight(1, heads, tokens, tokens, scale=1.0))
        if is_shifted:
            split_scores = net.reshape(scores, batch, -1, heads, tokens, tokens)
            masked = net.add(
                "Add", split_scores, net.weight(1, windows // batch, 1, tokens, tokens, scale=9.0)
            )
            scores = net.reshape(masked, -1, heads, tokens, tokens)
        mixed = net.add("MatMul", net.add("Softmax", scores, axis=-1), value)
        joined = net.reshape(net.add("Transpose", mixed, perm=(0, 2, 1, 3)), windows, tokens, width)
        image = turn(net.linear(joined, width, width), count, count, window, window)
        return net.reshape(image, batch, side, side, width)

    x = net.reshape("x", batch, side, side, width)
    for is_shifted in (False, True):
        inner = net.norm(x, width)
        if is_shifted:
            inner = shift(attend(shift(inner, window // 2), is_shifted=True), side - window // 2)
        else:
            inner = attend(inner, is_shifted=False)
        x = net.add("Add", x, inner)
        x = net.add("Add", x, feed_forward(net, net.norm(x, width), width))
    merged = net.add(
        "Transpose", net.reshape(x, batch, side // 2, 2, side // 2, 2, width), perm=(0, 1, 3, 4, 2, 5)
    )
    rows = net.reshape(merged, batch, side * side // 4, 4 * width)
    logits = net.linear(net.norm(rows, 4 * width), 4 * width, 10)
    return net.finish(
        {"x": (batch, side * side, width)}, [net.add("ReduceMean", logits, axes=[1], keepdims=0)]
    )


NETWORKS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "inception": inception,
    "bert": bert,
    "vit": vit,
    "convnext": convnext,
    "efficientnet": efficientnet,
    "swin": swin,
}
