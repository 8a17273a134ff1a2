"""The boundary with OpenCL: what drivers raise becomes codl's own error, once no device is at work any more.

pyopencl raises errors of its own, Python's for what C++ throws or cannot convert, and those of the files in
which it keeps what it generates. So every exception of its calls counts as a driver's.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Protocol

from codl.devices.awake import attentive_host
from codl.errors import CodlError, DeviceError

_REMEDY = "run `codl doctor`"
_TRIES = 3
"""How often a device is waited for that fails, or is interrupted, while it is waited for."""


class Queue(Protocol):
    """What can be waited for: a device."""

    def finish(self) -> None:
        """Wait until everything enqueued is done."""


@contextmanager
def driver_calls(subject: str, problem: str, *, kind: type[CodlError] = DeviceError) -> Iterator[None]:
    """Raise codl's own error for whatever the driver calls of the block raise.

    Args:
        subject: Whose calls: devices, a cache.
        problem: What fails with them, such as `cannot allocate 64 bytes`.
        kind: The error to raise.
    """
    try:
        yield
    except CodlError:
        raise
    except Exception as error:
        raise kind(f"{subject}: {problem}: got {tell(error)}, expected success; {_REMEDY}") from error


@contextmanager
def enough_memory(subject: str) -> Iterator[None]:
    """Raise DeviceError where the host has too little memory for what the block does.

    Args:
        subject: What is done in the block.
    """
    try:
        yield
    except MemoryError as error:
        raise DeviceError(
            f"{subject}: got {tell(error)}, expected enough memory; use a smaller model or batch"
        ) from error


@contextmanager
def at_work(
    devices: Iterable[Queue],
    subject: str,
    *,
    give_up: Callable[[], object] = lambda: None,
    is_attentive: bool = True,
) -> Iterator[None]:
    """Keep the host attentive to devices that work in the block; when it fails, wait for all of them.

    Else a late kernel would write into the next run, or into memory that was given back.

    Args:
        devices: Those that work.
        subject: What they do, for the error that is raised for a driver's own.
        give_up: Called before the wait when the block fails.
        is_attentive: Whether the host keeps its cores awake; where none of them computes that takes longer
            than it gains (30 to 60 us on a host of 16 cores).
    """
    with attentive_host() if is_attentive else nullcontext():
        try:
            yield
        except BaseException as error:
            try:
                give_up()
            finally:
                drain(devices)
            with driver_calls(subject, "a driver failed"):
                raise error


def drain(devices: Iterable[Queue]) -> None:
    """Wait until devices are idle, whatever they raise; an interrupt is raised afterwards."""
    interrupt: BaseException | None = None
    for device in devices:
        for _ in range(_TRIES):
            try:
                with suppress(Exception):  # the first failure is the one that is raised
                    device.finish()
                    break
            except BaseException as error:
                interrupt = error
    if interrupt is not None:
        raise interrupt


def tell(error: BaseException) -> str:
    """Return the words for an exception: its message, or its class where it has none."""
    return str(error).strip() or type(error).__name__
