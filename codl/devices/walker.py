"""The kernel by which a device walks a tape: how many groups it has, and whether they run together.

Groups wait for each other inside one launch (kernels/walk/barrier.h). OpenCL does not promise that all of
them run, so a probe finds out at first use. A group that waits in vain gives up after some seconds, and the
run ends as an error.
"""

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyopencl as cl

from codl.catalog.groups import GROUP, choose_products, takes_groups
from codl.catalog.spec import Parameters
from codl.catalog.walking import TENSOR_BUFFERS, WALKER, WALKER_ENTRY, WORDS
from codl.devices.boundary import driver_calls
from codl.devices.opencl import Device
from codl.errors import BuildError, DeviceError
from codl.ir.graph import FLOAT_BYTES

WALK_VARIABLE = "CODL_WALK"
"""Environment variable: how many groups walk a tape; 0: every operator is a launch of its own."""
_FAILED, _PATIENCE, _SYNC_INTS = 64, 65, 96
"""SYNC_FAILED and SYNC_PATIENCE of kernels/walk/barrier.h, and integers in all."""
_TURNS, _PROBE_TURNS = 1 << 24, 1 << 20
"""Turns that a group waits at a barrier, multiples of 1024; one takes about half a microsecond."""
_LEAST_WAIT_SECONDS = 0.05
"""No group gives up sooner: a turn takes 5 ns at the least."""
_PROBE_STEPS = 64


class Walker:
    """What all walks of a device share.

    Args:
        device: Whose queue takes them.
        groups: Work-groups that are resident together.
    """

    def __init__(self, device: Device, groups: int) -> None:
        self.device, self.groups = device, groups
        self._sync = device.upload_integers(_make_sync(_TURNS))
        self._begun = 0.0

    def bind(
        self,
        tape: Any,
        count: int,
        *,
        cases: frozenset[int],
        buffers: list[Any],
        weights: Any,
        arrivals: int,
        scratch: Any,
    ) -> tuple[Any, Callable[[], Any], tuple[Any, ...]]:
        """Return a kernel that walks a tape, what enqueues it, and its arguments.

        Args:
            tape: Buffer of descriptors.
            count: How many.
            cases: Of the steps.
            buffers: Those in which tensors lie, one to `TENSOR_BUFFERS`.
            weights: Buffer of constants.
            arrivals: Counters that a step takes at most.
            scratch: Buffer of scratch memory; it may be set later, as argument `SCRATCH_POSITION`.

        Raises:
            BuildError: The driver refused the kernel.
        """
        kernel = self.device.kernel(WALKER, WALKER_ENTRY, self._choose_parameters(cases))
        bases = (buffers + buffers[:1] * TENSOR_BUFFERS)[:TENSOR_BUFFERS]
        counters = self.device.arrivals(arrivals)
        args = (tape, np.int32(count), *bases, weights, scratch, counters, self._sync)
        self.device.bind(kernel, *args)
        size = (self.groups * GROUP, 1, 1)
        return (
            kernel,
            partial(cl.enqueue_nd_range_kernel, self.device.queue, kernel, size, (GROUP, 1, 1)),
            args,
        )

    def _choose_parameters(self, cases: frozenset[int]) -> Parameters:
        """Return how the walker is compiled: with all cases on GPUs; CPUs would take a minute for that."""
        assembly = choose_products(self.device.info)
        if not self.device.queue.device.type & cl.device_type.CPU:
            return assembly
        return {**assembly, "CASES": sum(1 << case for case in cases)}

    def begin(self) -> None:
        """Note when a walk is handed over."""
        self._begun = time.perf_counter()

    def check(self) -> None:
        """End a run whose walks are done; a group that waited in vain did so for longer than most runs take.

        Raises:
            DeviceError: A group waited for the others in vain.
        """
        if time.perf_counter() - self._begun < _LEAST_WAIT_SECONDS or not self._has_failed():
            return
        cl.enqueue_copy(self.device.queue, self._sync, _make_sync(_TURNS))
        raise DeviceError(
            f"{self.device.info.name}: a work-group waited for {self.groups - 1} others in vain, "
            f"expected all of them to run together; set {WALK_VARIABLE}=0 for one launch an operator"
        )

    def _has_failed(self) -> bool:
        failed = np.zeros(1, np.int32)
        cl.enqueue_copy(self.device.queue, failed, self._sync, src_offset=_FAILED * FLOAT_BYTES)
        return bool(failed[0])

    def is_sound(self) -> bool:
        """Return whether all groups pass barriers together, by walking a tape of them."""
        tape = np.zeros((_PROBE_STEPS, WORDS), np.int32)
        tape[:, 1] = 1
        nothing = self.device.allocate(1)
        with driver_calls(self.device.info.name, "cannot probe work-groups"):
            cl.enqueue_copy(self.device.queue, self._sync, _make_sync(_PROBE_TURNS))
            _, enqueue, _keep = self.bind(
                self.device.upload_integers(tape),
                _PROBE_STEPS,
                cases=frozenset(),
                buffers=[nothing],
                weights=nothing,
                arrivals=1,
                scratch=nothing,
            )
            enqueue()
            self.device.finish()
            has_failed = self._has_failed()
            cl.enqueue_copy(self.device.queue, self._sync, _make_sync(_TURNS))
        return not has_failed


SCRATCH_POSITION = 2 + TENSOR_BUFFERS + 1
"""Which argument of the kernel is scratch memory."""


def find_walker(device: Device) -> Walker | None:
    """Return what walks tapes on a device, probed at its first use; None where operators are launches.

    Raises:
        DeviceError: CODL_WALK is no number of groups.
    """
    wanted = _read_wish()
    if wanted == 0 or not takes_groups(device.info):
        return None
    units = device.info.units
    groups = min(wanted or units, units) if device.info.is_part else wanted or units
    if groups not in device.walkers:
        device.walkers[groups] = _open(device, groups)
    found: Walker | None = device.walkers[groups]
    return found


def _open(device: Device, groups: int) -> Walker | None:
    try:
        walker = Walker(device, groups)
        return walker if groups == 1 or walker.is_sound() else None
    except BuildError:
        return None


def _read_wish() -> int | None:
    wanted = os.environ.get(WALK_VARIABLE, "")
    if wanted and not wanted.isdecimal():
        raise DeviceError(f"{WALK_VARIABLE}: got {wanted!r}, expected a number of work-groups, or 0")
    return int(wanted) if wanted else None


def _make_sync(turns: int) -> Any:
    sync = np.zeros(_SYNC_INTS, np.int32)
    sync[_PATIENCE] = turns
    return sync
