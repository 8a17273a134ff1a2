"""Translations of operators that keep values and change where they lie."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from codl.frontend.draft import MAX_RANK, Draft, Translations, is_holdable
from codl.frontend.merging import Cut, fit_cuts, fit_order, merge_around, merge_order
from codl.frontend.onnx_node import OnnxNode
from codl.frontend.slices import find_picks
from codl.ir.graph import Shape
from codl.ir.ops import Concat, DepthToSpace, Slice, SpaceToDepth, Transpose


def translate_identity(draft: Draft, node: OnnxNode) -> None:
    """Let the input stand for the output."""
    x, shape = draft.carried(node.inputs[0], node=node)
    draft.add_reshaped(x, node, result=shape)


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
    x, _ = draft.carried(node.inputs[0], node=node)
    draft.add_reshaped(x, node, result=draft.full_shape(node.output, node=node))


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


def translate_transpose(draft: Draft, node: OnnxNode) -> None:
    """Add a `Transpose`, or a `Reshape` where only axes of one element move."""
    x, shape = draft.carried(node.inputs[0], node=node)
    order = node.integers("perm") or tuple(reversed(range(len(shape))))
    _add_turned(draft, node, x, shape=shape, order=order)


def _add_turned(draft: Draft, node: OnnxNode, x: str, *, shape: Shape, order: Sequence[int]) -> None:
    """Add a `Transpose` of a tensor under some shape, or a `Reshape` where only axes of one element move."""
    result = tuple(shape[axis] for axis in order)
    if len(merge_order(shape, order)[0]) < 2:
        draft.add_reshaped(x, node, result=result)
        return
    lengths, turned = shape, tuple(order)
    if not is_holdable(shape):
        lengths, turned = fit_order(shape, order, carrier=draft.tensors[x].shape)
        if not is_holdable(lengths):
            draft.check_shape(node.inputs[0], shape, node=node)
    x = draft.reshape(x, lengths, hint=f"{node.inputs[0]}/merged")
    out = tuple(lengths[axis] for axis in turned)
    draft.add_result(Transpose(order=turned), (x,), node, shape=out, result=result, word="merged")


def translate_concat(draft: Draft, node: OnnxNode) -> None:
    """Add a `Concat`; one input alone stands for the output."""
    carried = [draft.carried(name, node=node) for name in node.inputs]
    result = draft.full_shape(node.output, node=node)
    operands = [x for x, _ in carried]
    if len(operands) == 1:
        draft.add_reshaped(operands[0], node, result=result)
        return
    axis, shape = node.integer("axis", 1) % len(result), result
    if not is_holdable(result):
        shape = merge_around(result, axis, len(result))
        operands = [
            draft.reshape(x, merge_around(part, axis, len(part)), hint=f"{name}/merged")
            for (x, part), name in zip(carried, node.inputs, strict=True)
        ]
        axis = 1
    draft.add_result(Concat(axis=axis), operands, node, shape=shape, result=result, word="merged")


def translate_split(draft: Draft, node: OnnxNode) -> None:
    """Add a `Slice` for each output that is asked for."""
    x, shape = draft.carried(node.inputs[0], node=node)
    axis = node.integer("axis", 0) % len(shape)
    outputs = list(node.proto.output)
    start = 0
    for index, length in enumerate(_split_lengths(draft, node, length=shape[axis])):
        if outputs[index]:
            picks = [range(n) for n in shape]
            picks[axis] = range(start, start + length)
            _add_slice(draft, node, x, picks=picks, shape=shape, output=outputs[index])
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
    x, shape = draft.carried(node.inputs[0], node=node)
    starts, ends = draft.integers_of(node, "starts", index=1), draft.integers_of(node, "ends", index=2)
    if starts is None or ends is None:
        raise node.broken(got="no starts or ends", expected="both")
    axes, steps = draft.integers_of(node, "axes", index=3), draft.integers_of(node, "steps", index=4)
    picks = find_picks(shape, starts=starts, ends=ends, axes=axes, steps=steps)
    _add_slice(draft, node, x, picks=picks, shape=shape, output=node.output)


def translate_gather(draft: Draft, node: OnnxNode) -> None:
    """Add a `Slice` where the places are constant and equally far apart; a single one ends the axis, too.

    Where an axis becomes two, every n-th place in each of n rows, that is a `Transpose`.
    """
    x, shape = draft.carried(node.inputs[0], node=node)
    axis = node.integer("axis", 0) % len(shape)
    indices, length = np.asarray(draft.value(node.inputs[1], node=node)), shape[axis]
    if indices.ndim == 2 and indices.size == length:
        rows, columns = indices.shape
        if np.array_equal(indices, np.arange(length).reshape(columns, rows).T):
            halves = (*shape[:axis], columns, rows, *shape[axis + 1 :])
            order = [*range(axis), axis + 1, axis, *range(axis + 2, len(halves))]
            _add_turned(draft, node, x, shape=halves, order=order)
            return
    places = [int(index) for index in indices.reshape(-1)]
    if indices.ndim > 1 or not places or not all(-length <= place < length for place in places):
        raise node.unsupported(got=f"indices {places[:8]} of {length}", expected="places along one axis")
    places = [place % length for place in places]
    step = places[1] - places[0] if len(places) > 1 else 1
    if step < 1 or places != list(range(places[0], places[-1] + 1, step)):
        raise node.unsupported(got=f"indices {places[:8]}", expected="ascending by equal steps")
    picks = [range(n) for n in shape]
    picks[axis] = range(places[0], places[-1] + 1, step)
    _add_slice(
        draft, node, x, picks=picks, shape=shape, output=node.output, loses=None if indices.ndim else axis
    )


def _add_slice(
    draft: Draft,
    node: OnnxNode,
    x: str,
    *,
    picks: Sequence[range],
    shape: Shape,
    output: str,
    loses: int | None = None,
) -> None:
    """Add a `Slice`; where all is picked the input stands for the output.

    Args:
        draft: What it is added to.
        node: The node of the model.
        x: What carries its input.
        picks: Positions along each axis of the input.
        shape: Of the input.
        output: Which of the node's outputs it is.
        loses: An axis of which one position is picked and that the output does not have.
    """
    part = tuple(len(pick) for pick in picks)
    draft.check_shape(output, part, node=node, is_carried=True)
    result = part if loses is None else part[:loses] + part[loses + 1 :]
    if part == shape and all(pick.step > 0 for pick in picks):
        draft.add_reshaped(x, node, result=result, output=output)
        return
    cuts = [
        Cut(length=length, begin=pick.start, step=pick.step, count=len(pick))
        for length, pick in zip(shape, picks, strict=True)
    ]
    if not is_holdable(shape):
        cuts = fit_cuts(cuts, carrier=draft.tensors[x].shape)
        if len(cuts) > MAX_RANK:
            draft.check_shape(node.inputs[0], shape, node=node)
        x = draft.reshape(x, tuple(cut.length for cut in cuts), hint=f"{node.inputs[0]}/merged")
    draft.add_result(
        Slice(begin=tuple(cut.begin for cut in cuts), step=tuple(cut.step for cut in cuts)),
        (x,),
        node,
        shape=tuple(cut.count for cut in cuts),
        result=result,
        word="part",
        output=output,
    )


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
