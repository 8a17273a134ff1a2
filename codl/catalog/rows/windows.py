"""What the convolution kernels share: their constants and the scalars of a window."""

from codl.catalog.rows.boxes import constants_like
from codl.catalog.spec import Scalar
from codl.ir.graph import Graph, Node
from codl.ir.ops import Conv2d, ConvTranspose2d
from codl.ir.regions import Boxes


def constant_names(node: Node, op: Conv2d | ConvTranspose2d) -> tuple[str, ...]:
    """Return the names of weight and, if there is one, bias."""
    return node.inputs[1 : 3 if op.has_bias else 2]


def has_constant_weights(node: Node, graph: Graph) -> bool:
    """Return whether ``node`` is a convolution whose weight and bias can be packed."""
    op = node.op
    return isinstance(op, Conv2d) and all(name in graph.constants for name in constant_names(node, op))


def window_scalars(node: Node, graph: Graph, out: Boxes) -> dict[str, Scalar]:
    """Return image size and window as every kernel takes them, repeated for every candidate."""
    op = node.op
    assert isinstance(op, Conv2d | ConvTranspose2d)
    _, _, height, width = graph.shape(node.inputs[0])
    return constants_like(
        out,
        in_h=height,
        in_w=width,
        kernel_h=op.kernel[0],
        kernel_w=op.kernel[1],
        stride_h=op.stride[0],
        stride_w=op.stride[1],
        dilation_h=op.dilation[0],
        dilation_w=op.dilation[1],
        pad_h=op.pads[0],
        pad_w=op.pads[1],
    )
