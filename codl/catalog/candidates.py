"""Everything that could compute a node on a device: each row that accepts it, with each set of parameters."""

from collections.abc import Iterator
from itertools import product
from math import prod

from codl.catalog.spec import Batches, Implementation, Parameters, Selection
from codl.catalog.table import IMPLEMENTATIONS
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

_TILE = ("MR", "NR", "VECTOR")
_VECTORS = (1, 2, 3, 4)
"""Vectors in a row of the register tile."""


def iterate_candidates(
    node: Node, graph: Graph, info: DeviceInfo, rows: tuple[Implementation, ...] = IMPLEMENTATIONS
) -> Iterator[Selection]:
    """Yield rows with parameters that can compute ``node``, each row's own choice before its others.

    Rows that do not suit the device are left out.
    """
    for row in rows:
        default = row.accepts(node, graph, info) if row.suits(info) else None
        if default is None:
            continue
        own = Selection(implementation=row, parameters=default)
        yield own
        has_limits = any(
            batch.local is not None or prod(batch.local_size) > 1
            for batch in describe_whole(own, node, graph, info)
        )
        for values in product(*row.allowed.values()):
            parameters = dict(zip(row.allowed, values, strict=True))
            other = Selection(implementation=row, parameters=parameters)
            if parameters == default or not can_use(other, node, graph, info, default=default):
                continue
            if not has_limits or fits_device(other, node, graph, info):
                yield other


def can_use(selection: Selection, node: Node, graph: Graph, info: DeviceInfo, *, default: Parameters) -> bool:
    """Return whether a row that accepts a node may compute it with the parameters of ``selection``.

    Args:
        selection: The row and a value for each of its parameters.
        node: The operator.
        graph: Where its shapes and constants are found.
        info: The device.
        default: The parameters that the row proposes itself.
    """
    row, parameters = selection.implementation, selection.parameters
    if parameters == default:
        return True
    if set(parameters) != set(row.allowed):
        return False
    if any(value not in row.allowed[name] for name, value in parameters.items()):
        return False
    if not fits_registers(parameters, info):
        return False
    if row.fits is not None:
        return row.fits(node, graph, info, parameters)
    return all(parameters[name] == default[name] for name in set(parameters) - set(_TILE))


def fits_device(selection: Selection, node: Node, graph: Graph, info: DeviceInfo) -> bool:
    """Return whether the device has the local memory and the work-group size that a candidate asks for."""
    return all(
        prod(batch.local_size) <= info.max_work_group_size
        and (batch.local is None or int(batch.local[0]) * FLOAT_BYTES <= info.local_memory_bytes)
        for batch in describe_whole(selection, node, graph, info)
    )


def describe_whole(selection: Selection, node: Node, graph: Graph, info: DeviceInfo) -> Batches:
    """Return the launches by which a candidate computes a whole node."""
    whole = Boxes.whole(graph.shape(node.output), 1)
    return selection.implementation.describe(node, graph, whole, info, selection.parameters)


def fits_registers(parameters: Parameters, info: DeviceInfo) -> bool:
    """Return whether a register tile of MR rows and NR channels stays in registers.

    Rows of a tile are one to four vectors; the weights of one step and one input value take registers, too.
    Parameters that describe no tile always fit.
    """
    if not set(_TILE) <= set(parameters):
        return True
    rows, channels, lanes = (parameters[name] for name in _TILE)
    vectors = channels // lanes
    if channels % lanes or vectors not in _VECTORS:
        return False
    registers = -(-lanes // info.vector_width)
    return (rows * vectors + vectors + 1) * registers <= info.vector_registers
