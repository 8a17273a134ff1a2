"""Launch descriptions of several operators joined into one, so that what follows from them is computed once.

Only descriptions of one sort are joined: of the same kernel with the same parameters, whatever the sizes.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from codl.catalog.spec import LaunchBatch, Scalar
from codl.ir.regions import IntArray
from codl.machine import DeviceInfo

_MOST_LOCAL_BYTES = 1 << 18
"""No launch description makes use of more local memory."""
_GROUP = 64
"""Work-items of the largest work-group that a launch description chooses by a device's limit."""


def list_described_facts(info: DeviceInfo) -> tuple[Hashable, ...]:
    """Return all facts of a device that launch descriptions depend on: equal facts, equal descriptions."""
    return (
        info.kind,
        info.units,
        info.vector_width,
        min(info.local_memory_bytes, _MOST_LOCAL_BYTES),
        min(info.max_work_group_size, _GROUP),
        info.has_images,
    )


def find_sort(batch: LaunchBatch) -> tuple[Hashable, ...]:
    """Return what descriptions must have in common to be joined."""
    return (
        batch.entry,
        batch.source,
        tuple([(arg.dims, arg.image is None, len(arg.origin)) for arg in batch.tensors]),
        tuple([one.panel_floats is None for one in batch.packed]),
        batch.panel_begin is None,
        batch.scratch is None,
        batch.local is None,
        batch.constant_bytes is None,
        batch.busiest_flops is None,
        batch.local_size,
        batch.steals,
        tuple(batch.scalars),
        tuple(batch.units),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedBatch(LaunchBatch):
    """Candidates of several operators, one operator after the other; it cannot be enqueued."""

    panels: IntArray
    """Floats of one panel of all packed constants together, for each candidate."""

    @property
    def panel_floats(self) -> IntArray:
        """Floats of one panel of all packed constants together, for each candidate."""
        return self.panels


class _Scalars(Mapping[str, Scalar]):
    """Scalars of several descriptions, joined when they are asked for."""

    def __init__(self, parts: Sequence[Mapping[str, Scalar]]) -> None:
        self._parts = parts

    def __getitem__(self, name: str) -> Scalar:
        return np.concatenate([part[name] for part in self._parts])

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts[0])

    def __len__(self) -> int:
        return len(self._parts[0])


def join_batches(batches: Sequence[LaunchBatch]) -> LaunchBatch:
    """Return descriptions of one sort as one, their candidates one after the other.

    Args:
        batches: At least one; of operands the first one's are kept.
    """
    first = batches[0]
    if len(batches) == 1:
        return first
    counts = [len(batch.global_size) for batch in batches]
    return JoinedBatch(
        entry=first.entry,
        source=first.source,
        tensors=first.tensors,
        packed=first.packed,
        panel_begin=_join([batch.panel_begin for batch in batches]),
        panel_end=_join([batch.panel_end for batch in batches]),
        scratch=_join([batch.scratch for batch in batches]),
        local=_join([batch.local for batch in batches]),
        global_size=np.concatenate([batch.global_size for batch in batches]),
        local_size=first.local_size,
        steals=first.steals,
        scalars=_Scalars([batch.scalars for batch in batches]),
        units={name: np.concatenate([batch.units[name] for batch in batches]) for name in first.units},
        read_bytes=np.concatenate([batch.read_bytes for batch in batches]),
        written_bytes=np.concatenate([batch.written_bytes for batch in batches]),
        flops=np.concatenate([batch.flops for batch in batches]),
        constant_bytes=_join([batch.constant_bytes for batch in batches]),
        busiest_flops=_join([batch.busiest_flops for batch in batches]),
        panels=np.concatenate(
            [np.full(count, batch.panel_floats) for count, batch in zip(counts, batches, strict=True)]
        ),
    )


def _join(arrays: Sequence[IntArray | None]) -> IntArray | None:
    known = [array for array in arrays if array is not None]
    return np.concatenate(known) if known else None
