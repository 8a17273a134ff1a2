"""Folds zero padding into the window behind it."""

from dataclasses import replace

from codl.frontend.workbench import Fusion, Workbench
from codl.ir.graph import NO_EPILOGUE, Node
from codl.ir.ops import Conv2d, Pad, PadMode, Pads, Pool2d, PoolKind


def fold_padding(bench: Workbench, node: Node) -> Fusion | None:
    """Fold a `Pad` with zeros around the image into a convolution, or an average that counts zeros.

    An average whose own padding is not counted cannot take on padding that is; a maximum over zeros differs
    from one without them.
    """
    if not isinstance(node.op, Conv2d | Pool2d):
        return None
    producer = bench.sole_producer(node.inputs[0])
    if producer is None or not isinstance(producer.op, Pad) or producer.epilogue != NO_EPILOGUE:
        return None
    added = _find_margins(bench, producer, producer.op)
    if added is None:
        return None
    top, left, bottom, right = (a + b for a, b in zip(node.op.pads, added, strict=True))
    pads = (top, left, bottom, right)
    op: Conv2d | Pool2d
    if isinstance(node.op, Conv2d):
        op = replace(node.op, pads=pads)
    elif node.op.kind is PoolKind.AVERAGE and (node.op.counts_padding or not any(node.op.pads)):
        op = replace(node.op, pads=pads, counts_padding=True)
    else:
        return None
    fused = replace(node, op=op, inputs=(*producer.inputs, *node.inputs[1:]))
    return Fusion(node=fused, absorbed=producer.output)


def _find_margins(bench: Workbench, node: Node, op: Pad) -> Pads | None:
    """Return the zeros that a padding puts around images, or None if it does anything else."""
    shape, padded = bench.graph.shape(node.inputs[0]), bench.graph.shape(node.output)
    if op.mode is not PadMode.CONSTANT or op.value != 0 or shape[:2] != padded[:2] or any(op.before[:2]):
        return None
    (top, left), (height, width) = op.before[2:], shape[2:]
    margins = (top, left, padded[2] - height - top, padded[3] - width - left)
    return margins if min(margins) >= 0 else None
