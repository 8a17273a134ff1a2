"""Latencies in chains that differ from those of slices: concatenations, publications, fused launches."""

from collections.abc import Mapping
from math import prod

import numpy as np

from codl.ir.graph import Node
from codl.ir.ops import Concat
from codl.partitioner.chains import Reading
from codl.partitioner.growing import NextOperator
from codl.plan.sharing import Arrangement, Sharing
from codl.simulator.arrays import Floats
from codl.simulator.cut_grid import WHOLE
from codl.simulator.fused import FusedGroup
from codl.simulator.slices import SliceTables


class SpecialCosts:
    """Changes latencies of operators by what their chains are like.

    Args:
        tables: Of the network.
        place: Position of each node.
        arrangement: How the devices share memory.
    """

    def __init__(self, tables: SliceTables, place: Mapping[str, int], arrangement: Arrangement) -> None:
        self._tables, self._graph, self._fused, self._place = tables, tables.graph, tables.fused, place
        self._parts: dict[int, Floats] = {}
        profiles = [one.profile for one in tables.predictors]
        self._bandwidths = np.array([max(one.bandwidth_bytes_per_us, 1e-9) for one in profiles])
        self._launch_us = np.array([one.launch_us for one in profiles])
        self._is_discrete = np.array([mode is Sharing.COPIED for mode in arrangement.modes])

    def changes(self, node: Node) -> bool:
        """Return whether the latency of an operator may change."""
        return isinstance(node.op, Concat) or node.name in self._fused.by_rider

    def change(self, entry: NextOperator, taken: Floats) -> Floats:
        """Return [candidate, device, 2] the latency of an operator in its chain, and memory's part of it.

        Args:
            entry: The operator.
            taken: [candidate, device, 2] Latency of its slices.
        """
        if isinstance(entry.operator.node.op, Concat):
            return self._copy_inputs(entry, taken)
        return self._ride(entry, taken)

    def publish(self, size_bytes: int, length: int, need: Reading, own: Reading) -> Floats:
        """Return [candidate, device, 2] latency of copies where more is computed than a device's own part.

        Args:
            size_bytes: Of the tensor.
            length: Of the axis along which it is cut.
            need: What is computed.
            own: The devices' own parts.
        """
        part = np.maximum(own.high - own.low, 0)
        is_more = (need.low < own.low) | (need.high > own.high) if need.axis != WHOLE else part < length
        moved = 2.0 * size_bytes * part / length / self._bandwidths
        found = np.zeros((*part.shape, 2))
        found[:, :, 0] = np.where(is_more & (part > 0), moved + self._launch_us, 0.0)
        return found

    def _copy_inputs(self, entry: NextOperator, taken: Floats) -> Floats:
        """Return what a concatenation costs as long as its inputs come from outside the chain.

        An input that lies where the output does, both private or both published, is not copied. The chain
        notes how its latency changes when an input becomes private. Devices with memory of their own
        have one place for both, but where others send them parts of the output nothing may lie inside it.
        """
        node, copies = entry.operator.node, entry.chain.copies
        apart = np.zeros_like(taken)
        if self._is_discrete.any():
            is_discrete = self._is_discrete[None, :, None]
            apart = np.where(is_discrete & entry.is_published, taken, 0.0)
            taken = np.where(is_discrete, 0.0, taken)
        whole = float(prod(self._graph.shape(node.output)))
        for name in dict.fromkeys(node.inputs):
            part = float(prod(self._graph.shape(name))) * node.inputs.count(name) / whole * taken
            copies[name] = copies.get(name, 0.0) + (part if entry.is_published else -part)
        return apart if entry.is_published else taken

    def _ride(self, entry: NextOperator, taken: Floats) -> Floats:
        """Return the latency of an operator that may be a rider of a fused launch of the chain.

        For a rider at the end of its group that is seen when the main operator becomes part of the chain:
        the chain notes how the latency changes then.
        """
        node, fused, chain = entry.operator.node, self._fused, entry.chain
        for group in fused.by_rider.get(node.name, ()):
            changed = self._save(group, taken)
            if node is group.last:
                known = chain.copies.get(group.main.output, 0.0)
                chain.copies[group.main.output] = known + (changed - taken)
            elif not entry.is_published and self._place[group.last.name] <= chain.last:
                taken = changed
        return taken

    def _save(self, group: FusedGroup, taken: Floats) -> Floats:
        """Return the latency of a rider of a fused group.

        Where a profile has a model of the fused kernel, riders share what it takes longer than the main
        operator alone.
        """
        changed = self._fused.ride(taken, group.devices)
        part = self._parts.get(id(group))
        if part is None:
            part = self._parts[id(group)] = self._find_part(group)
        return np.where(np.isnan(part)[:, None], changed, taken * part[:, None])

    def _find_part(self, group: FusedGroup) -> Floats:
        """Return [device] latency of the riders over their latency alone; NaN without a model."""
        unknown = np.full(len(self._launch_us), np.nan)
        known = self._fused.find_whole_us(group, unknown)
        main = self._tables.find(group.main).whole[:, 0]
        rest = sum(self._tables.find(node).whole[:, 0] for node in group.nodes if node is not group.main)
        return np.asarray(np.maximum(known - main, 0.0) / np.maximum(rest, 1e-9))
