"""Which rows compute a node together with those before it."""

from collections.abc import Iterable, Iterator, Sequence

from codl.catalog.groups import takes_groups
from codl.catalog.layers import Layer, count_uses, list_before, read_node
from codl.catalog.spec import Implementation, Selection
from codl.catalog.table import PAIRS
from codl.ir.graph import Graph, Node
from codl.machine import DeviceInfo


def list_pairs(
    node: Node, graph: Graph, info: DeviceInfo, rows: Sequence[Implementation] = PAIRS
) -> Iterator[tuple[int, Selection]]:
    """Yield how many nodes before one a row computes in its launch, and the selection, the preferred first.

    There are none on devices that walk a tape: these compute one node after the other.
    """
    for row in rows if not takes_groups(info) else ():
        parameters = row.accepts(node, graph, info)
        if parameters is not None:
            yield row.taken, Selection(implementation=row, parameters=parameters)


def list_pair_layers(
    networks: Iterable[tuple[str, Graph]], devices: Sequence[DeviceInfo]
) -> tuple[Layer, ...]:
    """Return the distinct layers of several nodes that a device computes in one launch, with their uses.

    Args:
        networks: Names and networks.
        devices: Facts of devices; whether one launch pays depends on them.
    """
    return count_uses(
        (name, read_node(node, graph, before))
        for name, graph in networks
        for node in graph.nodes
        for count in sorted({count for info in devices for count, _ in list_pairs(node, graph, info)})
        if (before := list_before(node, graph, count)) is not None
    )
