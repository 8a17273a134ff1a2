"""Which rows compute a node together with those before it."""

from collections.abc import Iterator, Sequence

from codl.catalog.spec import Implementation, Selection
from codl.catalog.table import PAIRS
from codl.ir.graph import Graph, Node
from codl.machine import DeviceInfo


def list_pairs(
    node: Node, graph: Graph, info: DeviceInfo, rows: Sequence[Implementation] = PAIRS
) -> Iterator[tuple[int, Selection]]:
    """Yield how many nodes before one are computed in its launch, and by what, the preferred way first.

    Args:
        node: The last node.
        graph: Where its shapes and constants are found.
        info: The device.
        rows: What may compute several nodes.
    """
    for row in rows:
        parameters = row.accepts(node, graph, info)
        if parameters is not None:
            yield row.taken, Selection(implementation=row, parameters=parameters)
