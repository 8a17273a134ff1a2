"""Inputs and outputs of a session bound once, as `onnxruntime.IOBinding` does it."""

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from codl.errors import InputError, UnsupportedError
from codl.values import Array, OrtValue, read_element_type


class Runnable(Protocol):
    """A session, as far as bindings need one."""

    def run(self, output_names: Sequence[str] | None, input_feed: Any, run_options: Any = None) -> Any:
        """Return the outputs asked for."""


class IOBinding:
    """What a session shall read and where it shall write; `run_with_iobinding` runs it.

    Everything bound is in host memory: binding saves no copy, it only keeps the interface.
    """

    def __init__(self, session: Runnable) -> None:
        self._session = session
        self._inputs: dict[str, Array] = {}
        self._targets: dict[str, OrtValue | None] = {}
        self._results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: Array) -> None:
        """Bind an array; it is read when the binding runs."""
        self._inputs[name] = arr_on_cpu

    def bind_input(  # noqa: PLR0917
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Bind host memory at an address; the caller keeps it alive.

        Raises:
            UnsupportedError: The memory is a device's.
        """
        del device_id
        self._inputs[name] = _view_memory(name, device_type, element_type, shape, buffer_ptr)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind a value; it is read when the binding runs."""
        self._inputs[name] = ortvalue.numpy()

    def bind_output(  # noqa: PLR0917
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Ask for an output, in host memory at an address if one is given.

        Raises:
            UnsupportedError: The memory is a device's.
            InputError: An address without type or shape.
        """
        del device_id
        if buffer_ptr is None:
            self._targets[name] = None
            return
        if element_type is None or shape is None:
            raise InputError(
                f"output {name!r}: got an address alone, expected element_type and shape with it"
            )
        self._targets[name] = OrtValue(_view_memory(name, device_type, element_type, shape, buffer_ptr))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Let an output be written into a value."""
        self._targets[name] = ortvalue

    def clear_binding_inputs(self) -> None:
        """Forget all inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget all outputs."""
        self._targets.clear()
        self._results.clear()

    def synchronize_inputs(self) -> None:
        """Do nothing: inputs are in host memory."""

    def synchronize_outputs(self) -> None:
        """Do nothing: outputs are in host memory when a run returns."""

    def get_outputs(self) -> list[OrtValue]:
        """Return the outputs of the last run, in the order in which they were bound."""
        return list(self._results)

    def copy_outputs_to_cpu(self) -> list[Array]:
        """Return the outputs of the last run as arrays of their own."""
        return [np.array(value.numpy()) for value in self._results]

    def run(self, run_options: Any = None) -> None:
        """Run the session on what is bound; `run_with_iobinding` calls this.

        Raises:
            InputError: No output is bound, or what is bound does not fit the model.
        """
        if not self._targets:
            raise InputError("outputs: got none bound, expected at least one; call bind_output first")
        outputs = self._session.run(list(self._targets), self._inputs, run_options)
        self._results = []
        for target, output in zip(self._targets.values(), outputs, strict=True):
            if target is not None:
                target.update_inplace(output)
            self._results.append(target or OrtValue(output))


def _view_memory(name: str, device_type: str, element_type: Any, shape: Sequence[int], address: int) -> Array:
    if device_type != "cpu":
        raise UnsupportedError(
            f"{name!r}: got memory of {device_type!r}, expected 'cpu': sessions read and write host memory"
        )
    dtype = read_element_type(element_type)
    size = int(np.prod(shape)) * dtype.itemsize
    memory = (ctypes.c_byte * size).from_address(address)
    array: Array = np.frombuffer(memoryview(memory), dtype).reshape(tuple(shape))
    return array
