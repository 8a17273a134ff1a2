"""Which operators are alike: equal slices of them take equally long."""

from typing import Any

from codl.ir.graph import Graph, Node


class Sorts:
    """Numbers the sorts of operators in a network.

    Args:
        graph: The network.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._numbers: dict[Any, int] = {}
        self._by_name: dict[str, int] = {}

    def find(self, node: Node) -> int:
        """Return the number of a node's sort: of operators with equal attributes, epilogue and shapes."""
        number = self._by_name.get(node.name)
        if number is None:
            operands = tuple((self._graph.shape(name), name in self._graph.constants) for name in node.inputs)
            key = node.op, node.epilogue, operands, self._graph.shape(node.output)
            number = self._by_name[node.name] = self._numbers.setdefault(key, len(self._numbers))
        return number
