"""A whole model in ONNX Runtime: it answers while kernels compile, and where nothing is faster."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from codl.devices.forks import keep_in_children
from codl.errors import HostError
from codl.host_session import open_host_session
from codl.options import SessionOptions
from codl.runtime import onnxruntime
from codl.session.feeds import Feeds


class HostModel:
    """ONNX Runtime's session of a model as it is given.

    Args:
        model: Path of the ONNX file, or its content.
        options: Those that change what the model computes, and threads.

    Raises:
        UnsupportedError: ONNX Runtime refuses the model.
    """

    def __init__(self, model: str | os.PathLike[str] | bytes, options: SessionOptions) -> None:
        self._model, self._options = model, options
        self._open()

    def _open(self) -> None:
        given = onnxruntime.SessionOptions()
        given.intra_op_num_threads = self._options.intra_op_num_threads
        # Between runs its threads would go on looking for work, on the cores that drivers compute on.
        given.add_session_config_entry("session.force_spinning_stop", "1")
        for name, length in self._options.free_dimensions.items():
            given.add_free_dimension_override_by_name(name, length)
        for meaning, length in self._options.denoted_dimensions.items():
            given.add_free_dimension_override_by_denotation(meaning, length)
        self._values = {  # which ONNX Runtime does not keep alive
            name: onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
            for name, array in self._options.initializers.items()
        }
        for name, value in self._values.items():
            given.add_initializer(name, value)
        files = self._options.external_files
        if files:
            contents = list(files.values())
            lengths = [len(content) for content in contents]
            given.add_external_initializers_from_files_in_memory(list(files), contents, lengths)
        model = self._model if isinstance(self._model, bytes) else os.fspath(self._model)
        self._session = open_host_session(model, given, label="model: got one")
        keep_in_children(self._session)
        self._process = os.getpid()

    def run(self, feeds: Feeds, wanted: Sequence[str]) -> dict[str, Any]:
        """Return outputs by name; errors as in `answer`."""
        given = {name: _as_native(value) for name, value in {**feeds.inputs, **feeds.initializers}.items()}
        return dict(zip(wanted, self.answer(given, wanted), strict=True))

    def answer(self, feeds: Mapping[str, Any], wanted: Sequence[str]) -> list[Any]:
        """Return outputs in the order asked for.

        Args:
            feeds: What ONNX Runtime reads, arrays in this machine's byte order.
            wanted: Names of outputs.

        Raises:
            HostError: ONNX Runtime failed.
        """
        if self._process != os.getpid():  # its threads stayed in the parent
            self._open()
        try:
            outputs: list[Any] = self._session.run(list(wanted), feeds)
        except Exception as error:  # ONNX Runtime's errors have no common base but this one
            raise HostError(
                f"model: ONNX Runtime failed with {' '.join(str(error).split())}, "
                "expected success; look at the values that the model was fed"
            ) from error
        return outputs


def _as_native(value: Any) -> Any:
    """Return an array in this machine's byte order, which is all that ONNX Runtime reads."""
    if isinstance(value, np.ndarray) and not value.dtype.isnative:
        return value.astype(value.dtype.newbyteorder("="))
    return value
