"""Which implementation computes a node on a device: what was measured for its shape, or near it, or a rule.

Every choice can say how it was made: `named` (a session prefers a kernel that it has built), `exact` (this
very shape was tuned), `nearest` (one like it was), `heuristic` (the first row that accepts the node, with the
parameters it proposes).
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from codl.catalog.candidates import can_use, fits_device
from codl.catalog.database import EMPTY, Entry, KernelDatabase
from codl.catalog.shape_key import find_class, make_shape_key
from codl.catalog.spec import Implementation, Selection
from codl.catalog.table import IMPLEMENTATIONS
from codl.errors import UnsupportedError
from codl.ir.graph import Graph, Node
from codl.machine import DeviceInfo

NEAREST_LIMIT = 1.5
"""Doublings, summed over all sizes, up to which another shape's best kernel is taken."""
_LOG = logging.getLogger(__name__)
Databases = Mapping[str, KernelDatabase]
"""Device name -> what was measured on it."""
NO_DATABASES: Databases = {}


class Rung(StrEnum):
    """How a choice was made."""

    NAMED = "named"
    EXACT = "exact"
    NEAREST = "nearest"
    HEURISTIC = "heuristic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A selection and why it was made."""

    selection: Selection
    rung: Rung
    entry: Entry | None = None
    """What was measured, unless a rule chose."""


def choose(
    node: Node,
    graph: Graph,
    info: DeviceInfo,
    database: KernelDatabase = EMPTY,
    *,
    rows: Iterable[Implementation] = IMPLEMENTATIONS,
) -> Selection:
    """Return the row of the table that computes ``node``, with its parameters for this device.

    The choice depends on the whole node and on the device, never on a region: every slice of an operator is
    computed by the same kernel, so that its bits do not depend on the cut.

    Args:
        node: The operator.
        graph: Where its shapes and constants are found.
        info: The device.
        database: What was measured on it; without it, the first row that accepts the node is taken.
        rows: The table.

    Raises:
        UnsupportedError: No row can compute the node.
    """
    return explain_choice(node, graph, info, database, rows=rows).selection


def explain_choice(
    node: Node,
    graph: Graph,
    info: DeviceInfo,
    database: KernelDatabase = EMPTY,
    *,
    rows: Iterable[Implementation] = IMPLEMENTATIONS,
) -> Choice:
    """Return what `choose` chooses and why; the log tells it too, at level DEBUG."""
    choice = _climb(node, graph, info, database, tuple(rows))
    if _LOG.isEnabledFor(logging.DEBUG):
        known = f" ({choice.entry.key})" if choice.entry else ""
        _LOG.debug("%s: %s on %s: %s%s", node.name, choice.selection, info.name, choice.rung, known)
    return choice


def _climb(
    node: Node, graph: Graph, info: DeviceInfo, database: KernelDatabase, rows: tuple[Implementation, ...]
) -> Choice:
    if database.named:
        named = database.named.get(find_class(node, graph))
        if named is not None:
            return Choice(selection=named, rung=Rung.NAMED)
    if database.entries:
        key = make_shape_key(node, graph)
        exact = database.find_exact(key)
        found = _use(exact, node, graph, info, rows) if exact else None
        if found:
            return Choice(selection=found, rung=Rung.EXACT, entry=exact)
        for entry in database.find_nearest(key, limit=NEAREST_LIMIT):
            found = _use(entry, node, graph, info, rows)
            if found:
                return Choice(selection=found, rung=Rung.NEAREST, entry=entry)
    for row in rows:
        parameters = row.accepts(node, graph, info)
        if parameters is not None:
            selection = Selection(implementation=row, parameters=parameters)
            return Choice(selection=selection, rung=Rung.HEURISTIC)
    shapes = ", ".join(f"{name} {list(graph.shape(name))}" for name in node.inputs)
    raise UnsupportedError(
        f"node {node.name!r}: got {node.kind} of {shapes}, expected an operator that a kernel of {info.name} "
        "computes; let ONNX Runtime run it on the host"
    )


def _use(
    entry: Entry, node: Node, graph: Graph, info: DeviceInfo, rows: tuple[Implementation, ...]
) -> Selection | None:
    """Return what an entry names, if it can compute the node."""
    for row in rows:
        if row.name == entry.implementation:
            default = row.accepts(node, graph, info)
            found = Selection(implementation=row, parameters=entry.parameters)
            if default is None or not can_use(found, node, graph, info, default=default):
                continue
            if fits_device(found, node, graph, info):
                return found
    return None
