"""Which launches of a schedule may become one: results stay in the kernel that reads them.

Launches are joined where one device computes all of their nodes, and nothing else reads the tensors between
them. The results have the same bits, so plans do not mention it; executor and simulator both ask here.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from codl.ir.graph import Graph, Node
from codl.ir.regions import input_regions
from codl.plan.schedule import Call, Copy, Launch, Map, Publish, Schedule

T = TypeVar("T")


def find_pairs(
    graph: Graph, schedule: Schedule, choose: Callable[[Node, int], Iterable[tuple[int, T]]]
) -> dict[Launch, tuple[tuple[Launch, ...], T]]:
    """Return the launches that become one: by the last node's launch those before it, and the kernel.

    Args:
        graph: The network.
        schedule: Of a run.
        choose: Returns the kernels that compute a node on a device together with nodes before it, the
            preferred one first: the number of these nodes, each read by the next one alone, and the kernel.
    """
    finder = _Finder(graph, schedule)
    found: dict[Launch, tuple[tuple[Launch, ...], T]] = {}
    for (name, device), (last, *others) in finder.launches.items():
        for count, how in () if others else choose(graph.nodes_by_name[name], device):
            firsts = finder.find_firsts(last, count)
            if firsts is None:
                continue
            for first in firsts:
                found.pop(first, None)
            found[last] = firsts, how
            break
    return found


class _Finder:
    """Finds launches whose results only one other launch reads."""

    def __init__(self, graph: Graph, schedule: Schedule) -> None:
        self._graph = graph
        self._readers = _find_readers(schedule)
        self.launches: dict[tuple[str, int], list[Launch]] = {}
        """Those of a node on a device, in order."""
        self._moved: set[str] = set()
        for action in schedule.actions:
            match action:
                case Launch(node=name, device=device):
                    self.launches.setdefault((name, device), []).append(action)
                case Publish(tensor=name) | Map(tensor=name):
                    self._moved.add(name)
                case Copy(transfer=transfer):
                    self._moved.add(transfer.tensor)
                case Call(reads=names):
                    self._moved.update(names)
                case _:
                    pass

    def find_firsts(self, last: Launch, count: int) -> tuple[Launch, ...] | None:
        """Return the ``count`` launches before one, each all that the next one reads, the nearest first."""
        found: list[Launch] = []
        name, region = last.node, last.region
        for _ in range(count):
            node = self._graph.nodes_by_name[name]
            tensor = node.inputs[0]
            name = self._graph.producers[tensor].name
            firsts = self.launches.get((name, last.device), [])
            region = input_regions(node, self._graph, region)[0]
            is_own = tensor not in self._moved and self._readers.get(tensor, set()) <= {last.device}
            if not is_own or region.is_empty or len(firsts) != 1 or not firsts[0].region.contains(region):
                return None
            found.append(firsts[0])
        return tuple(found)


def _find_readers(schedule: Schedule) -> dict[str, set[int]]:
    """Return by tensor the devices that read it after it was published."""
    readers: dict[str, set[int]] = {}
    for shares in schedule.shares:
        for device, share in enumerate(shares):
            for name in share.reads:
                readers.setdefault(name, set()).add(device)
    return readers
