"""Predicts how long slices take on a device, from its profile, for many candidates at once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt

from codl.catalog.choose import choose
from codl.catalog.database import EMPTY, KernelDatabase
from codl.catalog.rows.copy import copy_batch
from codl.catalog.spec import LaunchBatch, Selection
from codl.ir.boxes import Boxes
from codl.ir.graph import FLOAT_BYTES, NO_EPILOGUE, Graph, Node, Shape
from codl.ir.ops import Conv2d, Epilogue
from codl.latency.epilogues import Epilogues
from codl.latency.estimate import STALE_ERROR, estimate_meeting, estimate_row, estimate_sharing
from codl.latency.features import FEATURES, VERSION, Features, extract_features
from codl.latency.profile import (
    NO_COHERENCE,
    NO_HOST_COHERENCE,
    Coherence,
    DeviceProfile,
    HostCoherence,
    Meeting,
    Origin,
    RowModel,
)
from codl.machine import DeviceInfo

Times = npt.NDArray[np.float64]
_BORROWED = 2.0
"""Factor by which predictions of a borrowed profile are less certain than of a measured one."""
_BEYOND = 4.0
"""A prediction longer than this many times the longest sample is marked as an estimate."""
_WINDOW = 3
"""Rows or columns of a window that minimal filtering takes at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AloneTimes:
    """Times of many candidates on one device working alone."""

    us: Times
    """[count] Of kernels, with the time that the driver adds to each launch; without the wait at the end."""
    memory_share: Times
    """[count] Share of the time that memory limits, in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction(AloneTimes):
    """Times of many candidates on one device working alone, and how far to trust them."""

    is_estimated: npt.NDArray[np.bool_]
    """[count], whether the kernel has no latency model of its own, or lies beyond its samples."""
    uncertainty: float
    """Typical relative error."""


class Predictor:
    """Predicts with one device's profile.

    Args:
        profile: Latency models.
        info: The device that it is for.
        database: Tuned kernels, the same as the executor's, so that both choose the same kernels.

    Raises:
        ProfileError: The profile was measured on another device or driver.
    """

    def __init__(
        self, profile: DeviceProfile, info: DeviceInfo, *, database: KernelDatabase | None = None
    ) -> None:
        if profile.origin is not Origin.SIMULATED:
            profile.check_device(info)
        self.profile, self.info, self.database = profile, info, database or EMPTY
        self._estimates: dict[str, RowModel] = {}

    def with_database(self, database: KernelDatabase) -> "Predictor":
        """Return a predictor of the same device that chooses kernels by another database."""
        return Predictor(self.profile, self.info, database=database)

    def choose(self, node: Node, graph: Graph) -> Selection:
        """Return the kernel that the executor chooses for a node.

        Raises:
            UnsupportedError: No kernel of the device computes it.
        """
        return choose(node, graph, self.info, self.database)

    def predict(
        self, node: Node, graph: Graph, out: Boxes, *, selection: Selection | None = None
    ) -> Prediction:
        """Return the times of computing each box of a node's output.

        Args:
            node: The operator.
            graph: Where its shapes are found.
            out: Output boxes; an empty one takes no time.
            selection: The kernel; by default the one that the executor would choose.
        """
        chosen = selection or self.choose(node, graph)
        is_empty = out.is_empty
        boxes = out
        if is_empty.any():  # descriptions are for boxes that hold something
            shape = np.asarray(graph.shape(node.output), np.int64)
            boxes = Boxes(
                np.where(is_empty[:, None], 0, out.begin), np.where(is_empty[:, None], shape, out.end)
            )
        batches = chosen.implementation.describe(node, graph, boxes, self.info, chosen.parameters)
        found = self.predict_launches(chosen, batches, node.epilogue, far_share=self.find_far_share(graph))
        return replace(
            found,
            us=np.where(is_empty, 0.0, found.us),
            is_estimated=found.is_estimated & ~is_empty,
        )

    def predict_launches(
        self,
        selection: Selection,
        batches: Sequence[LaunchBatch],
        epilogue: Epilogue = NO_EPILOGUE,
        *,
        far_share: float = 0.0,
    ) -> Prediction:
        """Return the times of launches that follow each other, for many candidates.

        Args:
            selection: What the launches are of.
            batches: Their descriptions, at least one.
            epilogue: What is done to the results.
            far_share: Share of the constants that comes from memory.
        """
        name = selection.implementation.name
        features = extract_features(
            batches, selection.parameters, self.info, epilogues=Epilogues.of(epilogue), far_share=far_share
        )
        times = self.predict_times(name, features)
        row, is_known = self.find_row(name), self.is_known(name)
        beyond = times.us > _BEYOND * row.longest_us
        return Prediction(
            us=times.us,
            memory_share=times.memory_share,
            is_estimated=beyond if is_known else np.ones(len(times.us), bool),
            uncertainty=self.find_uncertainty(name),
        )

    def predict_times(self, name: str, features: Features) -> AloneTimes:
        """Return the times of candidates with given features.

        Args:
            name: The kernel.
            features: Of its launches.
        """
        kernel_us = self.find_row(name).model.predict_us(FEATURES, features.values)
        moving_us = features.moved_bytes / self.profile.bandwidth_bytes_per_us
        return AloneTimes(
            us=kernel_us + features.launches * self.profile.launch_us,
            memory_share=np.minimum(1.0, moving_us / np.maximum(kernel_us, 1e-9)),
        )

    def find_row(self, name: str) -> RowModel:
        """Return the latency model of a kernel, estimated where the profile has none of its features."""
        row = self.profile.rows.get(name)
        if row is not None and (row.version == VERSION or self.profile.origin is Origin.SIMULATED):
            return row
        if name not in self._estimates:
            self._estimates[name] = estimate_row(name, self.profile)
        return self._estimates[name]

    def is_known(self, name: str) -> bool:
        """Return whether the profile has a latency model of a kernel as it is now."""
        row = self.profile.rows.get(name)
        return row is not None and (self.profile.origin is Origin.SIMULATED or row.is_of(name))

    def find_uncertainty(self, name: str) -> float:
        """Return the typical relative error of predictions for a kernel."""
        error = self.find_row(name).error
        if not self.is_known(name):
            error = max(error, STALE_ERROR)
        return error * (_BORROWED if self.profile.origin is Origin.BORROWED else 1.0)

    def find_far_share(self, graph: Graph) -> float:
        """Return the share of a network's constants that comes from memory in each run, in [0, 1].

        Every run reads all of them in the same order, so a cache that is a little too small drops each one
        just before it is read again. From twice the size of the cache on, all constants come from memory.
        """
        cache_bytes = self.profile.shared_cache_bytes
        if not cache_bytes:
            return 0.0
        return float(np.clip(count_constant_bytes(graph) / cache_bytes - 1, 0, 1))

    def predict_publish(self, tensor: str, shape: Shape, boxes: Boxes) -> Times:
        """Return the times [count] of copying boxes of a tensor to where all devices see it."""
        row, batch = copy_batch(tensor, shape, boxes, self.info)
        found = self.predict_launches(Selection(implementation=row, parameters={}), (batch,))
        return np.where(boxes.is_empty, 0.0, found.us)

    def find_transfer_us(self, *kinds: str) -> Times:
        """Return [3] the us of a call, of a byte and of a run of neighbouring bytes, summed over kinds.

        Args:
            kinds: `read` (device to host), `write` (host to device), `map` or `unmap`.
        """
        models = [self.profile.sharing.get(kind) or estimate_sharing(self.profile) for kind in kinds]
        return np.asarray(np.sum([model.align(("calls", "bytes", "rows")) for model in models], axis=0))

    def find_meeting(self, other: str, *, is_signalled: bool = False) -> Meeting:
        """Return the cost of synchronizing with another device; estimated where it was never measured.

        Args:
            other: Its name.
            is_signalled: Whether the two wait for each other, or else the host for both; where only the
                host's waiting was measured, that counts.
        """
        neighbour = self.profile.neighbours.get(other)
        if neighbour is None or neighbour.meeting is None:
            return estimate_meeting(self.profile)
        return (neighbour.signal if is_signalled else None) or neighbour.meeting

    def find_handing_us(self, other: str) -> float:
        """Return by how much this device begins later for each launch that is enqueued on another one.

        Args:
            other: Its name.
        """
        neighbour = self.profile.neighbours.get(other)
        return 0.0 if neighbour is None else neighbour.handing_us

    def find_coherence(self, other: str) -> Coherence:
        """Return the costs of memory that another device uses too; 0 where they were not measured.

        Args:
            other: Its name.
        """
        neighbour = self.profile.neighbours.get(other)
        return (None if neighbour is None else neighbour.coherence) or NO_COHERENCE

    @cached_property
    def host_coherence(self) -> HostCoherence:
        """The costs of memory that the host uses too; 0 where they were not measured."""
        known = [one.host for one in self.profile.neighbours.values() if one.host is not None]
        return max(known, key=lambda one: one.input_us + one.output_us, default=NO_HOST_COHERENCE)


def count_constant_bytes(graph: Graph) -> float:
    """Return about how many bytes of constants a run of a network reads, as kernels keep them.

    Filters are transformed for minimal filtering: windows of three become as many points as a cell has
    outputs, and two.
    """
    floats = 0.0
    for node in graph.nodes:
        growth = 1.0
        if isinstance(node.op, Conv2d):
            for tile in node.op.tile:
                growth *= (tile + _WINDOW - 1) / _WINDOW if tile > 1 else 1.0
        for name in node.inputs:
            if name in graph.constants:
                floats += growth * prod(graph.shape(name))
    return floats * FLOAT_BYTES
