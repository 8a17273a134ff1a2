"""The order in which planners decide: topological, branch after branch, each group of the host as one."""

from dataclasses import dataclass
from graphlib import TopologicalSorter

from codl.ir.graph import Graph, Node
from codl.ir.ops import HostCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One node, or all nodes of a group that the host computes at once."""

    nodes: tuple[Node, ...]
    is_host: bool


def order_units(graph: Graph) -> tuple[Unit, ...]:
    """Return the units of a graph in a topological order that follows a branch to its end before the next.

    Operators that can be one chain are then neighbours, whatever the order in the file.
    """
    units = _list_units(graph)
    unit_of = {node.name: index for index, unit in enumerate(units) for node in unit.nodes}
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for index, unit in enumerate(units):
        reads = [name for node in unit.nodes for name in node.inputs if name in graph.producers]
        sorter.add(index, *{unit_of[graph.producers[name].name] for name in reads} - {index})
    sorter.prepare()
    found, ready = [], sorted(sorter.get_ready(), reverse=True)
    while ready:
        index = ready.pop()
        found.append(units[index])
        sorter.done(index)
        ready += sorted(sorter.get_ready(), reverse=True)
    return tuple(found)


def _list_units(graph: Graph) -> list[Unit]:
    units = []
    for node in graph.nodes:
        if not isinstance(node.op, HostCall):
            units.append(Unit(nodes=(node,), is_host=False))
        elif node is graph.host_groups[node.op.group][0]:
            units.append(Unit(nodes=graph.host_groups[node.op.group], is_host=True))
    return units
