"""Sliding windows of Conv and the poolings: attributes, automatic padding, and what is wrong with them."""

from collections.abc import Iterator
from dataclasses import dataclass

from codl.frontend.onnx_node import OnnxNode
from codl.ir.graph import Shape
from codl.ir.ops import Pads, Pair

_AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window over height and width, padding resolved."""

    kernel: Pair
    stride: Pair
    dilation: Pair
    pads: Pads


def read_window(node: OnnxNode, *, x: Shape, weight: Shape | None = None) -> Window:
    """Return the window of a 2-D node that `find_window_problems` found sound.

    Args:
        node: Conv, MaxPool or AveragePool.
        x: Shape [N, C, H, W] of its input.
        weight: Shape of a convolution's weight, which tells the kernel where no attribute does.

    Source:
        ONNX operators Conv and MaxPool, attribute auto_pad.
    """
    kernel = _pair(node.integers("kernel_shape") or (weight or x)[2:])
    stride = _pair(node.integers("strides") or (1, 1))
    dilation = _pair(node.integers("dilations") or (1, 1))
    mode = node.text("auto_pad", "NOTSET")
    if mode == "NOTSET":
        top, left, bottom, right = node.integers("pads") or (0, 0, 0, 0)
    elif mode == "VALID":
        top = left = bottom = right = 0
    else:
        totals = [
            max(0, (-(-length // s) - 1) * s + (k - 1) * d + 1 - length)
            for length, k, s, d in zip(x[2:], kernel, stride, dilation, strict=True)
        ]
        less, more = [t // 2 for t in totals], [t - t // 2 for t in totals]
        before, after = (less, more) if mode == "SAME_UPPER" else (more, less)
        top, left, bottom, right = *before, *after
    return Window(kernel=kernel, stride=stride, dilation=dilation, pads=(top, left, bottom, right))


def read_transposed_window(node: OnnxNode, *, x: Shape, weight: Shape, out_shape: Shape) -> Window:
    """Return the window of a 2-D ConvTranspose; padding follows from the output where that is asked for.

    Args:
        node: ConvTranspose.
        x: Shape [N, IC, H, W] of its input.
        weight: Shape [IC, OC/groups, KH, KW].
        out_shape: Shape [N, OC, OH, OW] of its output.

    Source:
        ONNX operator ConvTranspose, attributes output_shape and auto_pad.
    """
    kernel = _pair(node.integers("kernel_shape") or weight[2:])
    stride = _pair(node.integers("strides") or (1, 1))
    dilation = _pair(node.integers("dilations") or (1, 1))
    extra = _pair(node.integers("output_padding") or (0, 0))
    mode = node.text("auto_pad", "NOTSET")
    pads = node.integers("pads") or (0, 0, 0, 0)
    if node.integers("output_shape") or mode.startswith("SAME"):
        totals = [
            max(0, (length - 1) * s + more + (k - 1) * d + 1 - out)
            for length, out, k, s, d, more in zip(
                x[2:], out_shape[2:], kernel, stride, dilation, extra, strict=True
            )
        ]
        less, rest = [t // 2 for t in totals], [t - t // 2 for t in totals]
        before, after = (less, rest) if mode == "SAME_UPPER" else (rest, less)
        pads = (*before, *after)
    elif mode == "VALID":
        pads = (0, 0, 0, 0)
    top, left, bottom, right = pads
    return Window(kernel=kernel, stride=stride, dilation=dilation, pads=(top, left, bottom, right))


def find_transposed_shape(node: OnnxNode, *, x: Shape, weight: Shape | None) -> Shape | None:
    """Return the output shape of a 2-D ConvTranspose with automatic padding, None where it is not known.

    What is added, output padding included, is taken away again as far as it exceeds input times stride.

    Source:
        ONNX operator ConvTranspose, attribute auto_pad; ONNX Runtime, ComputeTransposePadAndOutputShape.
    """
    if weight is None or len(x) != 4 or len(weight) != 4 or node.integers("output_shape"):
        return None
    if any(find_window_problems(node, x=None, weight=weight)):
        return None
    kernel = node.integers("kernel_shape") or weight[2:]
    stride, dilation, extra = (
        node.integers(name) or (default, default)
        for name, default in (("strides", 1), ("dilations", 1), ("output_padding", 0))
    )
    lengths = [
        min(n * s, (n - 1) * s + (k - 1) * d + 1 + more)
        for n, k, s, d, more in zip(x[2:], kernel, stride, dilation, extra, strict=False)
    ]
    return (x[0], weight[1] * node.integer("group", 1), *lengths) if len(lengths) == 2 else None


def find_pooled_shape(node: OnnxNode, *, x: Shape) -> Shape:
    """Return the output shape of a 2-D pooling over ``x`` [N, C, H, W].

    Rounding up never adds a window that starts behind the image and its leading padding.

    Source:
        ONNX operator MaxPool from opset 22 on; ONNX Runtime computes so at every opset.
    """
    window = read_window(node, x=x)
    lengths = []
    for axis, (k, s, d) in enumerate(zip(window.kernel, window.stride, window.dilation, strict=True)):
        before, after, length = window.pads[axis], window.pads[axis + 2], x[axis + 2]
        room = before + length + after - (k - 1) * d - 1
        steps = -(-room // s) if node.integer("ceil_mode", 0) == 1 else room // s
        lengths.append(min(steps, (before + length - 1) // s) + 1)
    return (*x[:2], *lengths)


def find_window_problems(node: OnnxNode, *, x: Shape | None, weight: Shape | None = None) -> Iterator[str]:
    """Yield one sentence for each attribute that ONNX does not allow; a shape of None is unknown."""
    remedy = "correct the attribute in the exporter"
    mode = node.text("auto_pad", "NOTSET")
    if mode not in _AUTO_PADS:
        yield node.sentence(got=f"auto_pad {mode}", expected=f"one of {', '.join(_AUTO_PADS)}", remedy=remedy)
        return
    kernel = node.integers("kernel_shape")
    shape = weight or x
    rank = len(kernel) if kernel else None if shape is None else len(shape) - 2
    broken = False
    for name, least, count in (
        ("kernel_shape", 1, rank),
        ("strides", 1, rank),
        ("dilations", 1, rank),
        ("pads", 0, None if rank is None else 2 * rank),
    ):
        values = node.integers(name)
        if values is None:
            continue
        if any(v < least for v in values) or (count is not None and len(values) != count):
            broken = True
            yield node.sentence(
                got=f"{name} {list(values)}",
                expected=f"{'' if count is None else f'{count} '}values of {least} or more",
                remedy=remedy,
            )
    if broken or x is None:
        return
    yield from _find_shape_problems(node, x=x, weight=weight, mode=mode)


def _find_shape_problems(node: OnnxNode, *, x: Shape, weight: Shape | None, mode: str) -> Iterator[str]:
    kernel = node.integers("kernel_shape") or (weight or x)[2:]
    if len(kernel) != len(x) - 2:
        yield node.sentence(
            got=f"a kernel of {len(kernel)} axes over an input of shape {list(x)}",
            expected=f"{len(x) - 2} axes",
            remedy="correct the kernel or the input",
        )
        return
    if mode.startswith("SAME"):
        return
    ones = (1,) * len(kernel)
    dilation = node.integers("dilations") or ones
    pads = (node.integers("pads") if mode == "NOTSET" else None) or (0,) * 2 * len(kernel)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    padded = [n + pads[i] + pads[len(kernel) + i] for i, n in enumerate(x[2:])]
    if any(r > p for r, p in zip(reach, padded, strict=True)):
        yield node.sentence(
            got=f"a kernel that reaches over {reach}",
            expected=f"at most the padded input's {padded}",
            remedy="correct the kernel or feed larger images",
        )


def _pair(values: tuple[int, ...]) -> Pair:
    vertical, horizontal = values
    return vertical, horizontal
