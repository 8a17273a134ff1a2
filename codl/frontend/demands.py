"""Requirements on attributes and shapes that ONNX Runtime does not check, or crashes on."""

from collections.abc import Callable, Iterator, Mapping

from codl.frontend.onnx_node import OnnxNode
from codl.frontend.slices import find_slice_problems
from codl.frontend.windows import find_window_problems
from codl.ir.graph import Shape

Shapes = Mapping[str, Shape]
"""Tensor -> shape, as far as known."""


def find_node_problems(node: OnnxNode, shapes: Shapes) -> Iterator[str]:
    """Yield one sentence for each broken demand of the node's operator.

    Args:
        node: Any node; one without demands here yields nothing.
        shapes: Shapes as far as they are known.
    """
    find = _DEMANDS.get(node.op_type)
    if find is not None:
        yield from find(node, shapes)


def _shape(node: OnnxNode, index: int, shapes: Shapes) -> Shape | None:
    return shapes.get(node.optional_input(index) or "")


def _conv(node: OnnxNode, shapes: Shapes) -> Iterator[str]:
    """Yield what is wrong with a convolution, plain or transposed."""
    x, weight, bias = (_shape(node, i, shapes) for i in range(3))
    groups, is_transposed = node.integer("group", 1), node.op_type == "ConvTranspose"
    if groups < 1:
        yield node.sentence(got=f"group {groups}", expected="1 or more")
        return
    if x is not None and weight is not None and not 2 < len(x) == len(weight):
        yield node.sentence(
            got=f"weight {list(weight)} over input {list(x)}",
            expected="as many axes, 3 or more",
            remedy="correct the weight or what feeds this node",
        )
        return
    yield from find_window_problems(node, x=None if is_transposed else x, weight=weight)
    if x is None or weight is None:
        return
    kernel = node.integers("kernel_shape") or weight[2:]
    if is_transposed:
        expected, outputs = (x[1], weight[1], *kernel), weight[1] * groups
        divided, is_divisible = "input channels", x[1] % groups == 0
    else:
        expected, outputs = (weight[0], x[1] // groups, *kernel), weight[0]
        divided, is_divisible = "channels", x[1] % groups == 0 and outputs % groups == 0
    if weight != expected or not is_divisible:
        yield node.sentence(
            got=f"weight {list(weight)} in {groups} groups over input {list(x)}",
            expected=f"weight {list(expected)}, {divided} divisible by the groups",
            remedy="correct the weight, group or kernel_shape",
        )
    if bias is not None and bias != (outputs,):
        remedy = "correct the bias in the exporter"
        yield node.sentence(got=f"bias {list(bias)}", expected=f"[{outputs}]", remedy=remedy)
    if is_transposed:
        yield from _transposed_sizes(node, x[2:], weight[2:])


def _transposed_sizes(node: OnnxNode, image: Shape, kernel: Shape) -> Iterator[str]:
    """Yield what is wrong with the size that a ConvTranspose states: no convolution leads back from it."""
    ones = (1,) * len(image)
    stride, dilation = node.integers("strides") or ones, node.integers("dilations") or ones
    extra, stated = node.integers("output_padding"), node.integers("output_shape")
    if extra is not None and (
        len(extra) != len(ones) or any(e >= s for e, s in zip(extra, stride, strict=False))
    ):
        yield node.sentence(got=f"output_padding {list(extra)}", expected=f"less than strides {list(stride)}")
    if stated is None:
        return
    most = [
        (n - 1) * s + (k - 1) * d + s for n, s, k, d in zip(image, stride, kernel, dilation, strict=False)
    ]
    if len(stated) != len(image) or any(
        not n <= o <= m for n, o, m in zip(image, stated, most, strict=False)
    ):
        yield node.sentence(
            got=f"output_shape {list(stated)}",
            expected=f"between the input's {list(image)} and {most}",
        )


def _pool(node: OnnxNode, shapes: Shapes) -> Iterator[str]:
    yield from find_window_problems(node, x=_shape(node, 0, shapes))


def _gemm(node: OnnxNode, shapes: Shapes) -> Iterator[str]:
    a, b = _shape(node, 0, shapes), _shape(node, 1, shapes)
    if a is None or b is None:
        return
    if len(a) != 2 or len(b) != 2:
        yield node.sentence(
            got=f"A {list(a)} and B {list(b)}", expected="two matrices", remedy="flatten the inputs first"
        )
        return
    inner_a = a[0] if node.integer("transA", 0) else a[1]
    inner_b = b[1] if node.integer("transB", 0) else b[0]
    if inner_a != inner_b:
        yield from _inner_problem(node, a, b)
    c = _shape(node, 2, shapes)
    shape = (sum(a) - inner_a, sum(b) - inner_b)
    if c is not None and not _stretches(c, shape):
        yield node.sentence(
            got=f"C {list(c)}", expected=f"one that broadcasts to {list(shape)}", remedy="correct C"
        )


def _stretches(shape: Shape, whole: Shape) -> bool:
    """Return whether a tensor broadcasts to another shape that it does not change."""
    tail = whole[len(whole) - len(shape) :]
    return len(shape) <= len(whole) and all(s in (1, n) for s, n in zip(shape, tail, strict=True))


def _matmul(node: OnnxNode, shapes: Shapes) -> Iterator[str]:
    a, b = _shape(node, 0, shapes), _shape(node, 1, shapes)
    if a and b and a[-1] != b[-2 if len(b) > 1 else 0]:
        yield from _inner_problem(node, a, b)


def _inner_problem(node: OnnxNode, a: Shape, b: Shape) -> Iterator[str]:
    yield node.sentence(
        got=f"A {list(a)} times B {list(b)}",
        expected="equal inner dimensions",
        remedy="correct the weight or what feeds this node",
    )


def _space_to_depth(node: OnnxNode, shapes: Shapes) -> Iterator[str]:
    block, x = node.integer("blocksize", 0), _shape(node, 0, shapes)
    yield from _block_mode(node)
    if block < 1 or (x is not None and (len(x) != 4 or x[2] % block or x[3] % block)):
        yield node.sentence(
            got=f"blocksize {block}" + ("" if x is None else f" over input {list(x)}"),
            expected="a positive divisor of height and width of a 4-D input",
            remedy="correct the attribute or feed images of another size",
        )


def _block_mode(node: OnnxNode) -> Iterator[str]:
    mode = node.text("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        yield node.sentence(got=f"mode {mode}", expected="DCR or CRD")


def _depth_to_space(node: OnnxNode, shapes: Shapes) -> Iterator[str]:
    block, x = node.integer("blocksize", 0), _shape(node, 0, shapes)
    yield from _block_mode(node)
    if block < 1 or (x is not None and (len(x) != 4 or x[1] % block**2)):
        yield node.sentence(
            got=f"blocksize {block}" + ("" if x is None else f" over input {list(x)}"),
            expected="a positive number whose square divides the channels of a 4-D input",
        )


def _channel_constants(*names: str) -> Callable[[OnnxNode, Shapes], Iterator[str]]:
    """Return the demand that these inputs, behind the first, hold one value for each channel."""

    def find(node: OnnxNode, shapes: Shapes) -> Iterator[str]:
        x = _shape(node, 0, shapes)
        if x is None or len(x) < 2:
            return
        for index, name in enumerate(names, start=1):
            got = _shape(node, index, shapes)
            if got is not None and got != x[1:2]:
                yield node.sentence(
                    got=f"{name} of shape {list(got)}", expected=f"[{x[1]}]", remedy="correct the statistics"
                )

    return find


def _prelu(node: OnnxNode, shapes: Shapes) -> Iterator[str]:
    x, slope = _shape(node, 0, shapes), _shape(node, 1, shapes)
    if x is not None and slope is not None and not _stretches(slope, x):
        yield node.sentence(
            got=f"slope of shape {list(slope)} for input {list(x)}",
            expected="one that broadcasts to the input",
            remedy="give it a trailing axis of 1 for each image axis",
        )


def _response_norm(node: OnnxNode, _: Shapes) -> Iterator[str]:
    size = node.integer("size", 0)
    if size < 1 or size % 2 == 0:
        yield node.sentence(got=f"size {size}", expected="an odd number of channels")


def _transpose(node: OnnxNode, shapes: Shapes) -> Iterator[str]:
    order, x = node.integers("perm"), _shape(node, 0, shapes)
    if order is not None and x is not None and sorted(order) != list(range(len(x))):
        yield node.sentence(got=f"perm {list(order)} of an input of {len(x)} axes", expected="each axis once")


def _axis(*, includes_end: bool = False) -> Callable[[OnnxNode, Shapes], Iterator[str]]:
    """Return the demand that the attribute axis is one of the first input's, or one behind where allowed."""

    def find(node: OnnxNode, shapes: Shapes) -> Iterator[str]:
        axis, x = node.integer("axis", 0), _shape(node, 0, shapes)
        if x is not None and not -len(x) <= axis < len(x) + includes_end:
            yield _axis_problem(node, f"axis {axis}", x, most=len(x) - 1 + includes_end)

    return find


def _axes(node: OnnxNode, shapes: Shapes) -> Iterator[str]:
    axes, x = node.integers("axes"), _shape(node, 0, shapes)
    if axes is None or x is None:
        return
    if any(not -len(x) <= axis < len(x) for axis in axes):
        yield _axis_problem(node, f"axes {list(axes)}", x, most=len(x) - 1)
    elif len({axis % len(x) for axis in axes}) < len(axes):
        yield node.sentence(got=f"axes {list(axes)}", expected="each axis once")


def _axis_problem(node: OnnxNode, got: str, x: Shape, *, most: int) -> str:
    return node.sentence(got=f"{got} of an input of shape {list(x)}", expected=f"from {-len(x)} to {most}")


def _slice(node: OnnxNode, shapes: Shapes) -> Iterator[str]:
    if node.opset < 10:
        yield from find_slice_problems(node, x=_shape(node, 0, shapes))


_DEMANDS: dict[str, Callable[[OnnxNode, Shapes], Iterator[str]]] = {
    "AveragePool": _pool,
    "BatchNormalization": _channel_constants("scale", "B", "mean", "var"),
    "Concat": _axis(),
    "Conv": _conv,
    "ConvTranspose": _conv,
    "DepthToSpace": _depth_to_space,
    "Flatten": _axis(includes_end=True),
    "Gemm": _gemm,
    "InstanceNormalization": _channel_constants("scale", "B"),
    "LRN": _response_norm,
    "MatMul": _matmul,
    "MaxPool": _pool,
    "PRelu": _prelu,
    "ReduceMean": _axes,
    "Slice": _slice,
    "Softmax": _axis(),
    "SpaceToDepth": _space_to_depth,
    "Split": _axis(),
    "Squeeze": _axes,
    "Transpose": _transpose,
}
