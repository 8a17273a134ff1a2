"""What devices do in the steps of many plans of one network: equal steps are followed through it once."""

from collections.abc import Callable, Sequence

from codl.ir.graph import Graph, Node
from codl.ir.regions import Region, input_regions
from codl.plan.residency import Share, share_step
from codl.plan.steps import Run, Step

_NOTHING = Share(computes={}, publishes={}, reads={})


class Sharer:
    """Remembers the shares of steps.

    Args:
        graph: The network.
        devices: Names of the devices of all plans.
        find_reads: What a whole operator reads of each input, where that is known already.
    """

    def __init__(
        self,
        graph: Graph,
        devices: Sequence[str],
        find_reads: Callable[[Node], Sequence[Region]] | None = None,
    ) -> None:
        self._graph, self._devices = graph, tuple(devices)
        self._find_reads = find_reads or self._ask_reads
        self._known: dict[Step, tuple[Share, ...]] = {}
        self._whole: dict[str, Share] = {}

    def share(self, step: Step) -> tuple[Share, ...]:
        """Return what `share_step` does."""
        found = self._known.get(step)
        if found is None:
            found = self._known[step] = self._share(step)
        return found

    def _share(self, step: Step) -> tuple[Share, ...]:
        if not isinstance(step, Run):
            return share_step(step, self._graph, self._devices)
        whole = self._whole.get(step.node)
        if whole is None:
            whole = self._whole[step.node] = self._share_whole(self._graph.nodes_by_name[step.node])
        return tuple(whole if name == step.device else _NOTHING for name in self._devices)

    def _share_whole(self, node: Node) -> Share:
        """Return what a device does that computes a whole operator."""
        region = Region.whole(self._graph.shape(node.output))
        reads: dict[str, Region] = {}
        if not region.is_empty:
            for tensor, part in zip(node.inputs, self._find_reads(node), strict=True):
                if tensor not in self._graph.constants and not part.is_empty:
                    reads[tensor] = reads[tensor].hull(part) if tensor in reads else part
        return Share(
            computes={} if region.is_empty else {node.name: region},
            publishes={node.output: region},
            reads=reads,
        )

    def _ask_reads(self, node: Node) -> Sequence[Region]:
        return input_regions(node, self._graph, Region.whole(self._graph.shape(node.output)))
