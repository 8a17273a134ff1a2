"""External weights, in files of their own: of initializers, and of constants among the nodes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx.external_data_helper import load_external_data_for_model, uses_external_data

from codl.errors import ModelError
from codl.frontend.onnx_node import find_bodies
from codl.frontend.types import count_tensor_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class InMemory:
    """What takes the place of external data, so that its file is not read."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    """Content of files by their name in the model."""
    values: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    """Initializers by name."""


NOTHING = InMemory()


def load_external_data(
    proto: Any, label: str, path: Path | None, *, most_bytes: int, memory: InMemory = NOTHING
) -> list[Any]:
    """Read external weights into the model and return their `onnx.TensorProto`.

    Args:
        proto: The `onnx.ModelProto`; its tensors are filled.
        label: The model in messages.
        path: File of the model; None for a model given as bytes, whose weights lie in the working directory.
        most_bytes: No more is read.
        memory: What is not read from files.

    Raises:
        ModelError: The files are missing or too short, or hold too much.
    """
    outside = [tensor for tensor in find_tensors(proto) if uses_external_data(tensor)]
    if not outside:
        return []
    total = 0
    try:
        for tensor in outside:
            total += _bound(tensor)
            if total > most_bytes:
                raise ModelError(
                    f"{label}: initializer {tensor.name!r}: got {total} bytes of external weights so far, "
                    f"expected at most {most_bytes}; raise Limits.initializer_bytes if you trust the model"
                )
            _fill_from_memory(tensor, label, memory)
        load_external_data_for_model(proto, str(Path() if path is None else path.parent))
    except (OSError, ValueError, RuntimeError, onnx.checker.ValidationError) as error:  # of C++ as well
        raise ModelError(
            f"{label}: got {' '.join(str(error).split())}, expected the external weights next to the model; "
            "copy them there"
        ) from error
    return outside


def _bound(tensor: Any) -> int:
    """Return the bytes that a tensor's dimensions ask for; as many are read, whatever the file's size.

    Raises:
        ValueError: The model states another length.
    """
    wanted = count_tensor_bytes(tensor.data_type, tensor.dims)
    stated = [entry.value for entry in tensor.external_data if entry.key == "length"]
    if not stated:
        tensor.external_data.add(key="length", value=str(wanted))
    elif int(stated[-1]) > wanted:
        raise ValueError(
            f"tensor {tensor.name!r} with length {stated[-1]} for {wanted} bytes of shape {list(tensor.dims)}"
        )
    return wanted


def _fill_from_memory(tensor: Any, label: str, memory: InMemory) -> None:
    """Give a tensor its bytes if they are in memory; otherwise it stays as it is."""
    told = {entry.key: entry.value for entry in tensor.external_data}
    content = memory.files.get(told.get("location", ""))
    if tensor.name in memory.values:
        tensor.raw_data = np.asarray(memory.values[tensor.name], order="C").tobytes()
    elif content is not None:
        begin = int(told.get("offset") or 0)
        length = int(told.get("length") or len(content) - begin)
        if not 0 <= begin <= begin + length <= len(content):
            raise ModelError(
                f"{label}: initializer {tensor.name!r}: got bytes {begin} to {begin + length} of "
                f"{told['location']!r}, expected some of its {len(content)}; give the whole file"
            )
        tensor.raw_data = content[begin : begin + length]
    else:
        return
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]


def find_tensors(proto: Any) -> Iterator[Any]:
    """Yield every tensor of a model: weights and attributes, those of functions and branches too."""
    yield from _find_graph_tensors(proto.graph)
    for function in proto.functions:
        yield from _find_node_tensors(function.node)


def _find_graph_tensors(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    yield from _find_node_tensors(graph.node)


def _find_node_tensors(nodes: Iterable[Any]) -> Iterator[Any]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
        for body in find_bodies(node):
            yield from _find_graph_tensors(body)
