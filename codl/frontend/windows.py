"""Sliding windows of Conv and the poolings: attributes, automatic padding, and what is wrong with them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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
    window = _read_attributes(node, weight or x)
    if not node.text("auto_pad", "NOTSET").startswith("SAME"):
        return window
    counts = [-(-length // stride) for length, stride in zip(x[2:], window.stride, strict=True)]
    return _pad_evenly(node, window, counts, x[2:])


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
    window = _read_attributes(node, weight)
    if not node.integers("output_shape") and not node.text("auto_pad", "NOTSET").startswith("SAME"):
        return window
    extra = node.integers("output_padding") or (0, 0)
    lengths = [length - more for length, more in zip(out_shape[2:], extra, strict=True)]
    return _pad_evenly(node, window, x[2:], lengths)


def _read_attributes(node: OnnxNode, shape: Shape) -> Window:
    """Return the window that attributes state; ``shape`` tells the kernel where no attribute does."""
    kernel = _pair(node.integers("kernel_shape") or shape[2:])
    stride, dilation = (_pair(node.integers(name) or (1, 1)) for name in ("strides", "dilations"))
    stated = node.integers("pads") if node.text("auto_pad", "NOTSET") == "NOTSET" else None
    top, left, bottom, right = stated or (0, 0, 0, 0)
    return Window(kernel=kernel, stride=stride, dilation=dilation, pads=(top, left, bottom, right))


def _pad_evenly(node: OnnxNode, window: Window, counts: Sequence[int], lengths: Sequence[int]) -> Window:
    """Return the window with the padding that gives it ``counts`` places over images of ``lengths``."""
    totals = [
        max(0, (count - 1) * s + (k - 1) * d + 1 - length)
        for count, length, k, s, d in zip(
            counts, lengths, window.kernel, window.stride, window.dilation, strict=True
        )
    ]
    less, more = [t // 2 for t in totals], [t - t // 2 for t in totals]
    before, after = (less, more) if node.text("auto_pad", "NOTSET") == "SAME_UPPER" else (more, less)
    return replace(window, pads=(before[0], before[1], after[0], after[1]))


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
    mode = node.text("auto_pad", "NOTSET")
    if mode not in _AUTO_PADS:
        yield node.sentence(got=f"auto_pad {mode}", expected=f"one of {', '.join(_AUTO_PADS)}")
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
