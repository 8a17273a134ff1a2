"""Which implementation computes a node on a device."""

from codl.catalog.spec import Selection
from codl.catalog.table import IMPLEMENTATIONS
from codl.errors import UnsupportedError
from codl.ir.graph import Graph, Node
from codl.machine import DeviceInfo


def choose(node: Node, graph: Graph, info: DeviceInfo) -> Selection:
    """Return the first row of the table that can compute ``node``, with its parameters for this device.

    The choice depends on the whole node and on the device, never on a region: every slice of an operator is
    computed by the same kernel, so that its bits do not depend on the cut.

    Raises:
        UnsupportedError: No row can compute the node.
    """
    for implementation in IMPLEMENTATIONS:
        parameters = implementation.accepts(node, graph, info)
        if parameters is not None:
            return Selection(implementation=implementation, parameters=parameters)
    shapes = ", ".join(f"{name} {list(graph.shape(name))}" for name in node.inputs)
    raise UnsupportedError(
        f"node {node.name!r}: got {node.kind} of {shapes}, expected an operator that a kernel of {info.name} "
        "computes; let ONNX Runtime run it on the host"
    )
