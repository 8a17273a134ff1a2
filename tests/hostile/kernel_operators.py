"""How a random node of each operator is added that has kernels; ONNX Runtime leaves out what is not legal."""

from typing import Any

import numpy as np

from tests.hostile.image_operators import (
    Add,
    batch_norm,
    convolution,
    instance_norm,
    pool,
    resize,
    response_norm,
)
from tests.hostile.sketch import Sketch


def pointwise(op_type: str, **ranges: tuple[float, float]) -> Add:
    """Return what adds a function of one tensor, with some of its attributes."""

    def add(sketch: Sketch) -> Any:
        drawn = {name: float(sketch.rng.uniform(*ends)) for name, ends in ranges.items() if sketch.flip()}
        return sketch.add(op_type, [sketch.pick()], **drawn)

    return add


def binary(op_type: str, dtype: Any = np.float32) -> Add:
    """Return what adds a function of two tensors that broadcast; the slope of a PRelu is never the larger."""

    def add(sketch: Sketch) -> Any:
        a = sketch.pick(dtype=dtype)
        is_first = sketch.flip(0.8) or op_type == "PRelu"
        return sketch.add(op_type, [a, partner(sketch, a)] if is_first else [partner(sketch, a), a])

    return add


def partner(sketch: Sketch, a: str) -> str:
    """Return a tensor that broadcasts with another one: itself, an equal one, or one of fewer lengths."""
    value = sketch.values[a]
    if sketch.flip(0.4):
        return sketch.pick(dtype=value.dtype, fits=lambda other: other.shape == value.shape)
    kept = int(sketch.rng.integers(0, value.ndim + 1))
    shape = [int(n) if sketch.flip(0.6) else 1 for n in value.shape[kept:]]
    other = sketch.array(shape, value.dtype)
    if other.dtype.kind == "f":
        other = np.where(np.abs(other) < 0.1, other.dtype.type(0.5), other)
    return sketch.constant(other) if sketch.flip(0.7) else sketch.feed(other)


def along_axis(op_type: str) -> Add:
    """Return what adds an operator with one axis."""

    def add(sketch: Sketch) -> Any:
        x = sketch.pick(least=1)
        rank = sketch.values[x].ndim
        found = {"axis": int(sketch.rng.integers(-rank, rank))} if sketch.flip(0.8) else {}
        return sketch.add(op_type, [x], **found)

    return add


def concat(sketch: Sketch) -> Any:
    """Add a concatenation of one to four tensors, the same one twice now and then."""
    x = sketch.pick(least=1)
    value = sketch.values[x]
    axis = int(sketch.rng.integers(value.ndim))

    def fits(other: Any) -> bool:
        return other.ndim == value.ndim and np.delete(other.shape, axis).tolist() == wanted

    wanted = np.delete(value.shape, axis).tolist()
    others = [
        sketch.pick(least=value.ndim, most=value.ndim, fits=fits) for _ in range(int(sketch.rng.integers(4)))
    ]
    return sketch.add("Concat", [x, *others], axis=axis - value.ndim if sketch.flip(0.3) else axis)


def draw_reshape(sketch: Sketch, value: Any) -> list[int]:
    """Return a shape of as many elements, with an open length or a kept one in it."""
    dims: list[int] = []
    rest = value.size
    while len(dims) < int(sketch.rng.integers(0, 6)):
        dims.append(int(sketch.choose([d for d in range(1, rest + 1) if rest % d == 0])))
        rest //= dims[-1]
    dims += [rest] if rest > 1 or sketch.flip(0.3) else []
    if dims and sketch.flip(0.4):
        dims[int(sketch.rng.integers(len(dims)))] = -1
    if dims and sketch.flip(0.2):
        dims[0] = 0
    return dims


def reshape(sketch: Sketch) -> Any:
    """Add a reshape to random lengths."""
    x = sketch.pick(fits=lambda value: value.size < 4096)
    return sketch.add("Reshape", [x, sketch.integers(*draw_reshape(sketch, sketch.values[x]))])


def with_axes(op_type: str, *, since: int) -> Add:
    """Return what adds Squeeze or Unsqueeze, whose axes became an input."""

    def add(sketch: Sketch) -> Any:
        x = sketch.pick(most=5, fits=lambda value: op_type != "Squeeze" or 1 in value.shape)
        shape = sketch.values[x].shape
        if op_type == "Squeeze":
            ones = [axis for axis, length in enumerate(shape) if length == 1]
            axes = [axis for axis in ones if sketch.flip()] or ones[:1]
            if sketch.flip(0.2):
                return sketch.add("Squeeze", [x])
        else:
            count = int(sketch.rng.integers(1, 3))
            axes = sketch.rng.permutation(len(shape) + count)[:count].tolist()
        rank = len(shape) + (len(axes) if op_type == "Unsqueeze" else 0)
        axes = [int(axis) - (rank if sketch.flip(0.2) else 0) for axis in axes]
        if sketch.opset < since:
            return sketch.add(op_type, [x], axes=axes)
        return sketch.add(op_type, [x, sketch.integers(*axes)])

    return add


def transpose(sketch: Sketch) -> Any:
    """Add a transposition, reversed where no order is given."""
    x = sketch.pick()
    order = sketch.rng.permutation(sketch.values[x].ndim).tolist()
    return sketch.add("Transpose", [x], **({"perm": order} if sketch.flip(0.8) else {}))


def cut(sketch: Sketch) -> Any:
    """Add a slice with starts and ends inside and outside, of either direction."""
    x = sketch.pick(least=1)
    rank = sketch.values[x].ndim
    axes = sketch.rng.permutation(rank)[: int(sketch.rng.integers(1, rank + 1))].tolist()
    starts = sketch.rng.integers(-4, 4, len(axes)).tolist()
    ends = [int(sketch.choose([1, 2, 4, 99, -1, 2**31 - 1, 2**63 - 1])) for _ in axes]
    if sketch.opset < 10:
        return sketch.add("Slice", [x], starts=starts, ends=ends, axes=axes)
    inputs = [x, sketch.integers(*starts), sketch.integers(*ends), sketch.integers(*axes)]
    if sketch.flip(0.4):
        inputs.append(sketch.integers(*[int(sketch.choose([1, 2, 3, -1])) for _ in axes]))
    return sketch.add("Slice", inputs)


def split(sketch: Sketch) -> Any:
    """Add a split into equal parts or given ones."""
    x = sketch.pick(least=1)
    value = sketch.values[x]
    axis = int(sketch.rng.integers(value.ndim))
    parts = int(sketch.rng.integers(1, min(4, value.shape[axis]) + 1))
    ends = np.sort(sketch.rng.integers(0, value.shape[axis] + 1, parts - 1))
    lengths = np.diff([0, *ends, value.shape[axis]]).tolist()
    if sketch.flip(0.4):
        many = {"num_outputs": parts} if sketch.opset >= 18 else {}
        return sketch.add_all("Split", [x], parts, axis=axis, **many)
    if sketch.opset < 13:
        return sketch.add_all("Split", [x], parts, axis=axis, split=lengths)
    return sketch.add_all("Split", [x, sketch.integers(*lengths)], parts, axis=axis)


def depth_to_space(sketch: Sketch) -> Any:
    """Add a move of channels into blocks of pixels."""
    x = sketch.pick(least=4, most=4, fits=lambda value: value.shape[1] % 4 == 0)
    mode = {"mode": sketch.choose(["DCR", "CRD"])} if sketch.opset >= 11 else {}
    return sketch.add("DepthToSpace", [x], blocksize=2, **mode)


def space_to_depth(sketch: Sketch) -> Any:
    """Add a move of blocks of pixels into channels."""
    x = sketch.pick(least=4, most=4, fits=lambda v: v.shape[2] % 2 == v.shape[3] % 2 == 0)
    return sketch.add("SpaceToDepth", [x], blocksize=2)


def pad(sketch: Sketch) -> Any:
    """Add a padding of every mode; negative lengths crop."""
    x = sketch.pick(least=1)
    rank, least = sketch.values[x].ndim, -1 if sketch.flip(0.2) else 0
    modes = ["constant", "constant", "reflect", "edge", *(["wrap"] if sketch.opset >= 19 else [])]
    pads = (sketch.rng.integers(least, 3, 2 * rank) * (sketch.rng.random(2 * rank) < 0.5)).tolist()
    mode = sketch.choose(modes)
    if sketch.opset < 11:
        return sketch.add("Pad", [x], pads=pads, mode=mode, value=0.5)
    value = [sketch.constant(np.float32(-1.5))] if sketch.flip() else []
    return sketch.add("Pad", [x, sketch.integers(*pads), *value], mode=mode)


def reduce(op_type: str, *, since: int = 18) -> Add:
    """Return what adds a reduction, whose axes became an input."""

    def add(sketch: Sketch) -> Any:
        x = sketch.pick()
        rank = sketch.values[x].ndim
        axes = [int(a) - (rank if sketch.flip(0.3) else 0) for a in range(rank) if sketch.flip()]
        found = {"keepdims": int(sketch.flip())} if sketch.flip(0.7) else {}
        if sketch.flip(0.2):
            return sketch.add(op_type, [x], **found)
        if sketch.opset < since:
            return sketch.add(op_type, [x], **found, **({"axes": axes} if axes else {}))
        if sketch.flip(0.2):
            found["noop_with_empty_axes"] = 1
        return sketch.add(op_type, [x, sketch.integers(*axes)], **found)

    return add


def gemm(sketch: Sketch) -> Any:
    """Add a product of matrices with transpositions, factors and C of any shape that broadcasts."""
    a = sketch.pick(least=2, most=2)
    flips = {name: int(sketch.flip()) for name in ("transA", "transB") if sketch.flip()}
    m, k = sketch.values[a].shape[:: -1 if flips.get("transA") else 1]
    n = int(sketch.rng.integers(1, 6))
    b = sketch.array([n, k] if flips.get("transB") else [k, n])
    inputs = [a, sketch.constant(b) if sketch.flip(0.8) else sketch.feed(b)]
    if sketch.flip(0.7) or sketch.opset < 11:
        shape = sketch.choose([[n], [1, n], [m, n], [m, 1], [1, 1], [], [1]])
        inputs.append(sketch.constant(sketch.array(shape)))
    factors = {name: float(sketch.choose([0.0, 1.0, 0.5])) for name in ("alpha", "beta") if sketch.flip(0.3)}
    return sketch.add("Gemm", inputs, **flips, **factors)


def matmul(sketch: Sketch) -> Any:
    """Add a product of matrices of any axes."""
    a = sketch.pick(least=1, most=5)
    shape = sketch.values[a].shape
    leading = [int(n) if sketch.flip(0.7) else 1 for n in shape[:-2]]
    leading = leading[int(sketch.rng.integers(len(leading) + 1)) :] if sketch.flip() else leading
    tail = [] if sketch.flip(0.1) and not leading else [int(sketch.rng.integers(1, 6))]
    b = sketch.array([*leading, shape[-1], *tail])
    return sketch.add("MatMul", [a, sketch.constant(b) if sketch.flip() else sketch.feed(b)])


def clip(sketch: Sketch) -> Any:
    """Add a clip, with limits left out."""
    x, low, high = sketch.pick(), float(sketch.rng.normal() - 1), float(sketch.rng.normal() + 1)
    if sketch.opset < 11:
        ends = {"min": low} if sketch.flip(0.7) else {}
        return sketch.add("Clip", [x], **ends, **({"max": high} if sketch.flip(0.7) else {}))
    limits = [sketch.constant(np.float32(v)) if sketch.flip(0.7) else "" for v in (low, high)]
    return sketch.add("Clip", [x, *limits])


def total(op_type: str) -> Add:
    """Return what adds an operator of one to four tensors that broadcast."""

    def add(sketch: Sketch) -> Any:
        x = sketch.pick()
        return sketch.add(op_type, [x, *(partner(sketch, x) for _ in range(int(sketch.rng.integers(4))))])

    return add


ADDS: dict[str, Add] = {
    **{name: binary(name) for name in ("Add", "Div", "Mul", "Sub", "PRelu")},
    **{name: pool(name) for name in ("AveragePool", "MaxPool")},
    **{name: convolution(name) for name in ("Conv", "ConvTranspose")},
    **{name: along_axis(name) for name in ("Flatten", "Softmax")},
    **{name: pointwise(name) for name in ("Dropout", "HardSwish", "Identity", "Relu", "Sigmoid", "Tanh")},
    "GlobalAveragePool": lambda s: s.add("GlobalAveragePool", [s.pick(least=3)]),
    "GlobalMaxPool": lambda s: s.add("GlobalMaxPool", [s.pick(least=3)]),
    "BatchNormalization": batch_norm,
    "Clip": clip,
    "Concat": concat,
    "DepthToSpace": depth_to_space,
    "Elu": pointwise("Elu", alpha=(0.1, 2)),
    "Gemm": gemm,
    "HardSigmoid": pointwise("HardSigmoid", alpha=(0.1, 1), beta=(0, 1)),
    "InstanceNormalization": instance_norm,
    "LRN": response_norm,
    "LeakyRelu": pointwise("LeakyRelu", alpha=(-0.5, 1)),
    "MatMul": matmul,
    "Pad": pad,
    "ReduceMean": reduce("ReduceMean"),
    "Reshape": reshape,
    "Resize": resize,
    "Slice": cut,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Squeeze": with_axes("Squeeze", since=13),
    "Sum": total("Sum"),
    "Transpose": transpose,
    "Unsqueeze": with_axes("Unsqueeze", since=13),
    "Upsample": resize,
}
"""What adds a node, by operator: all that codl translates."""
