"""How long slices take on a device, from its profile: numpy only, many candidates at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from codl.catalog.choose import choose
from codl.catalog.database import EMPTY, KernelDatabase
from codl.catalog.rows.copy import copy_batch
from codl.catalog.spec import LaunchBatch, Selection
from codl.catalog.table import IMPLEMENTATIONS, PAIRS
from codl.errors import ProfileError
from codl.ir.boxes import Boxes
from codl.ir.graph import NO_EPILOGUE, Graph, Node, Shape
from codl.ir.ops import Epilogue
from codl.latency.amounts.crossing import Crossing, count_crossing, find_crossing, find_cut
from codl.latency.amounts.epilogues import Epilogues
from codl.latency.amounts.far import count_network_constants, find_far_share
from codl.latency.features import FLOPS, Counting, Features, extract_features, stage_of
from codl.latency.known import find_factors, mark_node
from codl.latency.profile import (
    NO_COHERENCE,
    NO_HOST_COHERENCE,
    Coherence,
    DeviceKey,
    DeviceProfile,
    HostCoherence,
    Meeting,
    Origin,
    RowModel,
    digest_implementation,
)
from codl.machine import DeviceInfo

Times = npt.NDArray[np.float64]
_ROWS = {row.name: row for row in (*IMPLEMENTATIONS, *PAIRS)}
_BORROWED = 2.0
"""By how much a borrowed profile is less certain than where it was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AloneTimes:
    """Times of many candidates on one device working alone."""

    us: Times
    """[count], kernels and what the driver adds to each launch; without the wait at the end."""
    memory_share: Times
    """[count], how much of the time memory is the limit, in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction(AloneTimes):
    """Times of many candidates on one device working alone, and how far to trust them."""

    is_extrapolated: npt.NDArray[np.bool_]
    """[count], whether a candidate is unlike all that was measured."""
    uncertainty: float
    """Typical relative error: the root mean square over samples that were held out; the worst layer's."""


class Predictor:
    """Predicts with one device's profile.

    Args:
        profile: What was learned.
        info: The device that it is for.
        database: What is known of the best kernels, as the executor is given it: both choose alike.

    Raises:
        ProfileError: The profile was measured on another device or driver.
    """

    def __init__(
        self, profile: DeviceProfile, info: DeviceInfo, *, database: KernelDatabase | None = None
    ) -> None:
        difference = profile.key.find_difference(DeviceKey.of(info))
        if profile.origin is not Origin.SIMULATED and difference is not None:
            raise ProfileError(
                f"profile of {profile.name}: got one for {difference} of {info.name}; "
                f"run `codl profile --device {info.name}`"
            )
        self.profile, self.info, self._database = profile, info, database or EMPTY

    def choose(self, node: Node, graph: Graph) -> Selection:
        """Return what computes a node: what the executor chooses.

        Raises:
            UnsupportedError: No kernel of the device does.
        """
        return choose(node, graph, self.info, self._database)

    def predict(
        self, node: Node, graph: Graph, out: Boxes, *, selection: Selection | None = None
    ) -> Prediction:
        """Return the times of computing each box of a node's output.

        Args:
            node: The operator.
            graph: Where its shapes are found.
            out: Output boxes; an empty one takes no time.
            selection: What computes it; what the executor would choose by default.

        Raises:
            ProfileError: The implementation has no predictor, or one of another source.
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
        crossing = find_crossing(node, graph, boxes)
        found = self.predict_launches(
            chosen,
            batches,
            node.epilogue,
            layer=(node, graph),
            crossing=crossing,
            is_cut=find_cut(boxes, graph.shape(node.output)),
        )
        if not is_empty.any():
            return found
        return replace(
            found,
            us=np.where(is_empty, 0.0, found.us),
            is_extrapolated=found.is_extrapolated & ~is_empty,
        )

    def predict_launches(
        self,
        selection: Selection,
        batches: Sequence[LaunchBatch],
        epilogue: Epilogue = NO_EPILOGUE,
        *,
        layer: tuple[Node, Graph] | None = None,
        crossing: Crossing | None = None,
        is_cut: npt.NDArray[np.bool_] | None = None,
    ) -> Prediction:
        """Return the times of launches that follow each other, for many candidates.

        Args:
            selection: What the launches are of.
            batches: Their descriptions, at least one.
            epilogue: What is done to the results.
            layer: The node that they compute, with where its shapes are found; it may have been measured.
            crossing: How far apart their data lie; None for what is computed whole.
            is_cut: [count] Which candidates have some of the channels only; none by default.

        Raises:
            ProfileError: The implementation has no predictor, or one of another source.
        """
        features = extract_features(
            batches,
            selection.parameters,
            self.info,
            epilogues=Epilogues.of(epilogue),
            crossing=crossing,
            counting=self.find_counting(selection.implementation.name),
            far_share=0.0 if layer is None else self.find_far_share(layer[1]),
        )
        launches = sum((batch.global_size > 0).all(axis=1).astype(np.float64) for batch in batches)
        name = selection.implementation.name
        taken = selection.implementation.taken
        marks = () if layer is None else (mark_node(*layer, selection.parameters, taken=taken),)
        counts = (len(batches[0].global_size),) * len(marks)
        times = self.predict_times(
            name, features, np.asarray(launches), marks=marks, counts=counts, is_cut=is_cut
        )
        model = self._find_row(name).model
        return Prediction(
            us=times.us,
            memory_share=times.memory_share,
            is_extrapolated=model.is_outside(features.select(model.features)),
            uncertainty=max(self.find_uncertainty(name, mark) for mark in marks or ("",)),
        )

    def predict_times(
        self,
        name: str,
        features: Features,
        launches: Times,
        *,
        marks: Sequence[str] = (),
        counts: Sequence[int] = (),
        is_cut: npt.NDArray[np.bool_] | None = None,
    ) -> AloneTimes:
        """Return the times of candidates whose features are known already.

        Args:
            name: The implementation.
            features: Of its launches.
            launches: [count] How many they are.
            marks: Of the layers that candidates are slices of, one layer's candidates after the other's.
            counts: How many candidates each layer has.
            is_cut: [count] Which candidates have some of the channels only; none by default.

        Raises:
            ProfileError: The implementation has no predictor, or one of another source.
        """
        known = self._find_row(name)
        self._check_stages(name, features, known)
        kernel_us = known.model.predict_launches_us(features)
        if known.layers and marks:
            some = np.zeros(len(kernel_us), bool) if is_cut is None else is_cut
            kernel_us = kernel_us * find_factors(known.layers, marks, counts, some)
        moving_us = features.moved_bytes / self.profile.bandwidth_bytes_per_us
        return AloneTimes(
            us=kernel_us + launches * self.profile.launch_us,
            memory_share=np.minimum(1.0, moving_us / np.maximum(kernel_us, 1e-9)),
        )

    def find_uncertainty(self, name: str, mark: str) -> float:
        """Return the typical relative error of predictions for slices of a layer.

        Args:
            name: The implementation; one that the profile knows.
            mark: Of the layer.
        """
        row = self.profile.rows[name]
        is_sure = self.profile.origin is not Origin.BORROWED and not row.is_carried
        return row.find_uncertainty(mark) * (1.0 if is_sure else _BORROWED)

    def find_counting(self, name: str) -> Counting:
        """Return what the model of an implementation means by work, if there is one."""
        known = self.profile.rows.get(name)
        return Counting.ITEMS if known is None else known.counting

    def find_far_share(self, graph: Graph) -> float:
        """Return which share of a network's constants comes from memory in each run, in [0, 1]."""
        cache_bytes = self.profile.shared_cache_bytes
        return find_far_share(count_network_constants(graph), cache_bytes) if cache_bytes else 0.0

    def is_known(self, name: str) -> bool:
        """Return whether the profile has a predictor of an implementation as it is."""
        return name in self.profile.rows and not self._is_stale(name)

    def is_by_totals(self, name: str) -> bool:
        """Return whether predictions for an implementation ask for no feature but `FLOPS`."""
        known = self.profile.rows.get(name)
        return (
            known is not None
            and self.profile.origin is Origin.SIMULATED
            and set(known.model.features) <= {FLOPS}
        )

    def predict_publish(self, tensor: str, shape: Shape, boxes: Boxes) -> Times:
        """Return the times [count] of copying boxes of a tensor to where all devices see it.

        Raises:
            ProfileError: The copy kernel has no predictor.
        """
        row, batch = copy_batch(tensor, shape, boxes, self.info)
        crossing = count_crossing([(boxes, shape)] * 2)
        selection = Selection(implementation=row, parameters={})
        found = self.predict_launches(selection, (batch,), crossing=crossing)
        return np.where(boxes.is_empty, 0.0, found.us)

    def predict_sharing(self, kind: str, *, bytes_: Times, rows: Times, calls: Times) -> Times:
        """Return the times [count] of making regions seen.

        Args:
            kind: `read` (device to host), `write` (host to device), `map` or `unmap`.
            bytes_: Bytes of each region.
            rows: Runs of neighbouring bytes in each region.
            calls: Driver calls for each region.

        Raises:
            ProfileError: The profile does not know this kind.
        """
        model = self.profile.sharing.get(kind)
        if model is None:
            raise ProfileError(
                f"profile of {self.profile.name}: got no cost of {kind!r}, expected one; "
                f"run `codl profile --device {self.info.name}`"
            )
        columns: Mapping[str, Times] = {"bytes": bytes_, "rows": rows, "calls": calls}
        return model.predict_us(np.stack([columns[name] for name in model.features], axis=1))

    def find_meeting(self, other: str, *, is_signalled: bool = False) -> Meeting:
        """Return what it costs to meet another device.

        Args:
            other: Its name.
            is_signalled: Whether the two wait for each other, or else the host for both; where only the
                host's waiting was measured, that counts.

        Raises:
            ProfileError: The two were never measured together.
        """
        neighbour = self.profile.neighbours.get(other)
        if neighbour is None or neighbour.meeting is None:
            raise ProfileError(
                f"profile of {self.profile.name}: got no meeting with {other}, expected one; "
                "run `codl profile`"
            )
        return (neighbour.signal if is_signalled else None) or neighbour.meeting

    def find_handing_us(self, other: str) -> float:
        """Return by how much this device begins later for each launch that is handed over to another one.

        Args:
            other: Its name.
        """
        neighbour = self.profile.neighbours.get(other)
        return 0.0 if neighbour is None else neighbour.handing_us

    def find_coherence(self, other: str) -> Coherence:
        """Return what it costs to use memory that another device uses as well; nothing where nobody knows.

        Args:
            other: Its name.
        """
        neighbour = self.profile.neighbours.get(other)
        return (None if neighbour is None else neighbour.coherence) or NO_COHERENCE

    @cached_property
    def host_coherence(self) -> HostCoherence:
        """What it costs to use memory that the host uses as well; nothing where nobody knows."""
        known = [one.host for one in self.profile.neighbours.values() if one.host is not None]
        return max(known, key=lambda one: one.input_us + one.output_us, default=NO_HOST_COHERENCE)

    def slow_down(self, prediction: Prediction, other: str, other_memory_share: Times | None = None) -> Times:
        """Return a prediction's times [count] while another device works too.

        Args:
            prediction: What this device takes alone.
            other: Name of the other device; one it was never measured with disturbs nothing.
            other_memory_share: What the other's work is like; the same as this device's by default.
        """
        neighbour = self.profile.neighbours.get(other)
        if neighbour is None:
            return prediction.us
        own = np.stack([1 - prediction.memory_share, prediction.memory_share])
        theirs = prediction.memory_share if other_memory_share is None else other_memory_share
        mix = np.stack([1 - theirs, theirs])
        slowdown = np.einsum("ic,ij,jc->c", own, np.asarray(neighbour.slowdown), mix)
        return np.asarray(prediction.us * slowdown)

    def _check_stages(self, name: str, features: Features, known: RowModel) -> None:
        """Raise an error when launches do work of a sort that no sample did: it would seem to be free."""
        if self.profile.origin is Origin.SIMULATED:
            return
        missing = _list_stages(features.names) - _list_stages(known.model.features)
        if missing:
            raise ProfileError(
                f"profile of {self.profile.name}: got launches of {name} unlike all samples "
                f"({', '.join(sorted(missing))}), expected such as were measured; "
                f"run `codl profile --device {self.info.name}`"
            )

    def _find_row(self, name: str) -> RowModel:
        known = self.profile.rows.get(name)
        flag = "" if self.profile.origin is Origin.BORROWED else "--stale "
        if known is None:
            raise ProfileError(
                f"profile of {self.profile.name}: got no predictor of {name}, expected one for each kernel; "
                f"run `codl profile {flag}--device {self.info.name}`"
            )
        if self._is_stale(name):
            raise ProfileError(
                f"profile of {self.profile.name}: got a predictor of an older {name}, expected one of the "
                f"present kernel; run `codl profile {flag}--device {self.info.name}`"
            )
        return known

    def _is_stale(self, name: str) -> bool:
        """Return whether a kernel of the catalog has changed since its predictor was fitted."""
        if self.profile.origin is Origin.SIMULATED or name not in _ROWS:
            return False
        return self.profile.rows[name].digest != digest_implementation(_ROWS[name])


@lru_cache(maxsize=512)
def _list_stages(names: tuple[str, ...]) -> frozenset[str]:
    """Return which launches some features are of."""
    return frozenset(map(stage_of, names))
