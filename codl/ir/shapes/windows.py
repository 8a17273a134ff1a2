"""Shape rules of convolutions, poolings and matrix products."""

from codl.ir.graph import Shape
from codl.ir.ops import Conv2d, ConvTranspose2d, MatMul, Pool2d
from codl.ir.shapes.claims import Shapes, broadcast, check, check_groups, take, with_rank


def conv2d(op: Conv2d, shapes: Shapes, _: Shape) -> Shapes:
    """Every window lies in the padded image; each output channel has a kernel and a bias."""
    x, weight, *_bias = take(shapes, 2 + op.has_bias)
    (batch, _channels, *image), (outputs, inputs, *_kernel) = with_rank(x, 4), with_rank(weight, 4)
    check_groups(op.groups, outputs)
    check(min(op.tile) > 0, got=f"tile {op.tile}", expected="1 or more")
    lengths = [room // stride + 1 for room, stride in zip(_find_room(op, x), op.stride, strict=True)]
    bias = ((outputs,),) if op.has_bias else ()
    return (
        (batch, inputs * op.groups, *image),
        (outputs, inputs, *op.kernel),
        *bias,
        (batch, outputs, *lengths),
    )


def conv_transpose2d(op: ConvTranspose2d, shapes: Shapes, out: Shape) -> Shapes:
    """Output padding adds less than a stride, or than a step between taps."""
    x, weight, *_bias = take(shapes, 2 + op.has_bias)
    (batch, channels, *image), (_inputs, outputs, *_kernel) = with_rank(x, 4), with_rank(weight, 4)
    check_groups(op.groups, channels)
    _check_window(op)
    lengths = []
    for axis, length in enumerate(image):
        reach = (length - 1) * op.stride[axis] + (op.kernel[axis] - 1) * op.dilation[axis] + 1
        least = reach - op.pads[axis] - op.pads[2 + axis]
        most = least + max(op.stride[axis], op.dilation[axis]) - 1
        lengths.append(_clamp(with_rank(out, 4)[2 + axis], max(1, least), most))
    outputs *= op.groups
    bias = ((outputs,),) if op.has_bias else ()
    kernels = (channels, outputs // op.groups, *op.kernel)
    return x, kernels, *bias, (batch, outputs, *lengths)


def pool2d(op: Pool2d, shapes: Shapes, out: Shape) -> Shapes:
    """The last window may lie in the padding alone, begin there, or not exist: rounding decides."""
    (x,) = take(shapes, 1)
    lengths = []
    for axis, room in enumerate(_find_room(op, with_rank(x, 4))):
        stride, reached = op.stride[axis], op.pads[axis] + x[2 + axis] - 1
        least = min(room // stride, reached // stride) + 1
        most = min(-(-room // stride), (reached + op.pads[2 + axis]) // stride) + 1
        lengths.append(_clamp(with_rank(out, 4)[2 + axis], least, most))
    return x, (*x[:2], *lengths)


def matmul(op: MatMul, shapes: Shapes, _: Shape) -> Shapes:
    """Rows of a, columns of b; leading axes broadcast."""
    a, b, *_bias = take(shapes, 2 + op.has_bias)
    check(min(len(a), len(b)) > 1, got=f"shapes {list(a)} and {list(b)}", expected="matrices")
    leading, columns = broadcast(a[:-2], b[:-2]), b[-1]
    bias = ((columns,),) if op.has_bias else ()
    return a, (*b[:-2], a[-1], columns), *bias, (*leading, a[-2], columns)


def _check_window(op: Conv2d | ConvTranspose2d | Pool2d) -> None:
    check(
        min(*op.kernel, *op.stride, *op.dilation) > 0 and min(op.pads) >= 0,
        got=f"kernel {op.kernel}, stride {op.stride}, dilation {op.dilation}, pads {op.pads}",
        expected="positive ones and pads of 0 or more",
    )


def _find_room(op: Conv2d | Pool2d, x: Shape) -> list[int]:
    """Return how far a window can move over the padded rows and columns."""
    _check_window(op)
    room = [
        op.pads[axis] + x[2 + axis] + op.pads[2 + axis] - (op.kernel[axis] - 1) * op.dilation[axis] - 1
        for axis in (0, 1)
    ]
    check(
        min(room) >= 0,
        got=f"kernel {op.kernel} of dilation {op.dilation} over shape {list(x)} with pads {op.pads}",
        expected="a kernel that fits",
    )
    return room


def _clamp(length: int, least: int, most: int) -> int:
    return max(least, min(length, most))
