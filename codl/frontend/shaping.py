"""Translations of operators that keep values and change where they lie."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from codl.frontend.draft import Draft, Translations
from codl.frontend.onnx_node import OnnxNode
from codl.frontend.slices import find_picks
from codl.ir.graph import Shape
from codl.ir.ops import Concat, DepthToSpace, Reshape, Slice, SpaceToDepth, Transpose


def translate_identity(draft: Draft, node: OnnxNode) -> None:
    """Let the input stand for the output."""
    draft.add_alias(node.output, draft.operand(node.inputs[0], node=node))


def translate_dropout(draft: Draft, node: OnnxNode) -> None:
    """Let the input stand for the output; inference drops nothing."""
    if len(node.outputs) > 1:
        raise node.unsupported(got="output mask", expected="the values alone")
    training = node.optional_input(2)
    if training is not None and draft.scalar(training, node=node):
        raise node.unsupported(got="training_mode true", expected="inference")
    translate_identity(draft, node)


def translate_reshape(draft: Draft, node: OnnxNode) -> None:
    """Add a `Reshape`, for every operator that keeps the values and their order."""
    _check_count(draft, node)
    x = draft.operand(node.inputs[0], node=node)
    _add_reshape(draft, node, x, shape=draft.shape(node.output, node=node))


def _check_count(draft: Draft, node: OnnxNode) -> None:
    """Raise `ModelError` for a shape that cannot hold the input's elements."""
    x, target = draft.shapes.get(node.inputs[0]), node.optional_input(1) or ""
    if x is None or min(x, default=1) < 1:
        return
    shape = draft.shapes.get(node.output)
    if node.op_type == "Reshape" and target in draft.values:
        wanted = tuple(int(i) for i in np.asarray(draft.values[target]).reshape(-1))
        shape = find_reshaped_shape(x, wanted, keeps_zeros=bool(node.integer("allowzero", 0)))
        if shape is None:
            raise node.broken(got=f"shape {list(wanted)} for an input {list(x)}", expected="as many elements")
    if shape is not None and math.prod(shape) != math.prod(x):
        raise node.broken(
            got=f"output of shape {list(shape)}", expected=f"as many elements as input {list(x)}"
        )


def find_reshaped_shape(x: Shape, wanted: Shape, *, keeps_zeros: bool) -> Shape | None:
    """Return the shape that a Reshape asks for, None if it cannot hold the input's elements.

    Args:
        x: Shape of the input.
        wanted: Lengths; -1 is whatever is left, 0 the input's length of that axis.
        keeps_zeros: Whether 0 is a length instead.

    Source:
        ONNX operator Reshape.
    """
    if min(wanted, default=0) < -1 or wanted.count(-1) > 1:
        return None
    if not keeps_zeros:
        if any(length == 0 for length in wanted[len(x) :]):
            return None
        wanted = tuple(length or x[axis] for axis, length in enumerate(wanted))
    count, known = math.prod(x), math.prod(length for length in wanted if length != -1)
    if -1 not in wanted:
        return wanted if known == count else None
    if known == 0 or count % known:
        return None
    return tuple(count // known if length == -1 else length for length in wanted)


def _add_reshape(draft: Draft, node: OnnxNode, x: str, *, shape: Shape) -> None:
    if shape == draft.tensors[x].shape:
        draft.add_alias(node.output, x)
    else:
        draft.add_node(Reshape(), (x,), node.output, shape=shape, name=node.name)


def translate_transpose(draft: Draft, node: OnnxNode) -> None:
    """Add a `Transpose`, or a `Reshape` where only axes of one element move."""
    x, shape = draft.first_operand(node)
    order = node.integers("perm") or tuple(reversed(range(len(shape))))
    long = [axis for axis in order if shape[axis] > 1]
    out_shape = tuple(shape[axis] for axis in order)
    if long == sorted(long):
        _add_reshape(draft, node, x, shape=out_shape)
        return
    draft.add_node(Transpose(order=order), (x,), node.output, shape=out_shape, name=node.name)


def translate_concat(draft: Draft, node: OnnxNode) -> None:
    """Add a `Concat`; one input alone stands for the output."""
    operands = [draft.operand(name, node=node) for name in node.inputs]
    if len(operands) == 1:
        draft.add_alias(node.output, operands[0])
        return
    shape = draft.shape(node.output, node=node)
    op = Concat(axis=node.integer("axis", 1) % len(shape))
    draft.add_node(op, operands, node.output, shape=shape, name=node.name)


def translate_split(draft: Draft, node: OnnxNode) -> None:
    """Add a `Slice` for each output that is asked for."""
    x, shape = draft.first_operand(node)
    axis = node.integer("axis", 0) % len(shape)
    outputs = list(node.proto.output)
    start = 0
    for index, length in enumerate(_split_lengths(draft, node, length=shape[axis])):
        if outputs[index]:
            begin = tuple(start if i == axis else 0 for i in range(len(shape)))
            part = (*shape[:axis], length, *shape[axis + 1 :])
            _add_slice(draft, node, x, output=outputs[index], begin=begin, step=(1,) * len(shape), shape=part)
        start += length


def _split_lengths(draft: Draft, node: OnnxNode, *, length: int) -> Sequence[int]:
    """Return the length of each part: stated as attribute or input, or as equal as can be."""
    lengths, count = draft.integers_of(node, "split", index=1), len(node.proto.output)
    if lengths is not None:
        if len(lengths) != count or min(lengths) < 0 or sum(lengths) != length:
            raise node.broken(
                got=f"parts of {list(lengths)} for {count} outputs",
                expected=f"{count} that add up to {length}",
            )
        return lengths
    if node.integer("num_outputs", count) != count:
        raise node.broken(
            got=f"num_outputs {node.integer('num_outputs', count)}", expected=f"{count}, as there are outputs"
        )
    part = -(-length // count)
    return [max(0, min(part, length - i * part)) for i in range(count)]


def translate_slice(draft: Draft, node: OnnxNode) -> None:
    """Add a `Slice`; starts, ends and axes were attributes before opset 10 and are inputs since."""
    x, shape = draft.first_operand(node)
    starts, ends = draft.integers_of(node, "starts", index=1), draft.integers_of(node, "ends", index=2)
    if starts is None or ends is None:
        raise node.broken(got="no starts or ends", expected="both")
    axes, steps = draft.integers_of(node, "axes", index=3), draft.integers_of(node, "steps", index=4)
    picks = find_picks(shape, starts=starts, ends=ends, axes=axes, steps=steps)
    _add_slice(
        draft,
        node,
        x,
        output=node.output,
        begin=tuple(pick.start for pick in picks),
        step=tuple(pick.step for pick in picks),
        shape=tuple(len(pick) for pick in picks),
    )


def translate_gather(draft: Draft, node: OnnxNode) -> None:
    """Add a `Slice` where the places are constant and equally far apart; a single one ends the axis, too."""
    x = draft.operand(node.inputs[0], node=node)
    shape = draft.tensors[x].shape
    axis = node.integer("axis", 0) % len(shape)
    indices, length = np.asarray(draft.value(node.inputs[1], node=node)), shape[axis]
    places = [int(index) for index in indices.reshape(-1)]
    if indices.ndim > 1 or not places or not all(-length <= place < length for place in places):
        raise node.unsupported(got=f"indices {places[:8]} of {length}", expected="places along one axis")
    places = [place % length for place in places]
    step = places[1] - places[0] if len(places) > 1 else 1
    if step < 1 or places != list(range(places[0], places[-1] + 1, step)):
        raise node.unsupported(got=f"indices {places[:8]}", expected="ascending by equal steps")
    part = (*shape[:axis], len(places), *shape[axis + 1 :])
    output = node.output if indices.ndim else draft.fresh_name(f"{node.output}/part")
    _add_slice(
        draft,
        node,
        x,
        output=output,
        begin=tuple(places[0] if i == axis else 0 for i in range(len(shape))),
        step=tuple(step if i == axis else 1 for i in range(len(shape))),
        shape=part,
    )
    if not indices.ndim:
        source = draft.aliases.get(output, output)
        whole = shape[:axis] + shape[axis + 1 :]
        draft.add_node(Reshape(), (source,), node.output, shape=whole, name=node.name)


def _add_slice(
    draft: Draft,
    node: OnnxNode,
    x: str,
    *,
    output: str,
    begin: tuple[int, ...],
    step: tuple[int, ...],
    shape: Shape,
) -> None:
    draft.check_shape(output, shape, node=node)
    name = node.name if len(node.proto.output) == 1 else f"{node.name}/{output}"
    if shape == draft.tensors[x].shape and min(step, default=1) > 0:
        draft.add_alias(output, x)
    else:
        draft.add_node(Slice(begin=begin, step=step), (x,), output, shape=shape, name=name)


def translate_blocks(kind: type[SpaceToDepth | DepthToSpace], draft: Draft, node: OnnxNode) -> None:
    """Add a `SpaceToDepth` or a `DepthToSpace`."""
    x = draft.operand(node.inputs[0], node=node)
    op = kind(block=node.integer("blocksize", 1), is_column_major=node.text("mode", "DCR") == "CRD")
    draft.add_node(op, (x,), node.output, shape=draft.shape(node.output, node=node), name=node.name)


TRANSLATIONS: Translations = {
    "Concat": translate_concat,
    "DepthToSpace": partial(translate_blocks, DepthToSpace),
    "Dropout": translate_dropout,
    "Flatten": translate_reshape,
    "Gather": translate_gather,
    "Identity": translate_identity,
    "Reshape": translate_reshape,
    "Slice": translate_slice,
    "SpaceToDepth": partial(translate_blocks, SpaceToDepth),
    "Split": translate_split,
    "Squeeze": translate_reshape,
    "Transpose": translate_transpose,
    "Unsqueeze": translate_reshape,
}
