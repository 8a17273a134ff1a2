"""A graph without its constants as JSON text, and back: values of known classes only, nothing is executed."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import StrEnum
from typing import Any

from codl.ir import graph as graph_module
from codl.ir import ops
from codl.ir.graph import FloatArray, Graph, HostModel

_PLAIN = (type(None), bool, int, float, str)
_EMPTY = "no bytes"
_CLASSES: Mapping[str, type] = {
    name: found
    for module in (ops, graph_module)
    for name, found in vars(module).items()
    if isinstance(found, type) and (is_dataclass(found) or issubclass(found, StrEnum))
}
"""Every class that a graph is made of, by name."""


def format_graph(graph: Graph) -> str:
    """Return a graph as text; its constants and the content of its host models are left out.

    Raises:
        TypeError: It holds a value that text cannot bring back exactly.
    """
    return json.dumps(_encode(strip(graph)), separators=(",", ":"))


def strip(graph: Graph) -> Graph:
    """Return a graph without what its text leaves out: constants, and the content of host models."""
    models = {group: replace(model, content=b"") for group, model in graph.host_models.items()}
    return replace(graph, constants={}, host_models=models)


def parse_graph(
    text: str, constants: Mapping[str, FloatArray], contents: Mapping[str, bytes] | None = None
) -> Graph:
    """Return the graph of a text, with these constants and contents of its host models.

    Raises:
        ValueError: The text is none of `format_graph`.
    """
    try:
        found = _decode(json.loads(text))
        if not isinstance(found, Graph):
            raise TypeError(f"got {type(found).__name__}, expected Graph")
        models: dict[str, HostModel] = {
            group: replace(model, content=(contents or {}).get(group, b""))
            for group, model in found.host_models.items()
        }
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"graph as text: {type(error).__name__} {error}") from error
    return replace(found, constants=constants, host_models=models)


def _encode(value: Any) -> Any:
    """Return JSON: plain values and lists for tuples as they are, everything else as an object of one key."""
    if type(value) in _PLAIN:
        return value
    if type(value) is bytes and not value:
        return {_EMPTY: None}
    if type(value) is tuple:
        return [_encode(item) for item in value]
    if type(value) is dict:
        return {"dict": [[_encode(key), _encode(item)] for key, item in value.items()]}
    name = type(value).__name__
    if _CLASSES.get(name) is type(value):
        if isinstance(value, StrEnum):
            return {name: value.value}
        return {name: {one.name: _encode(getattr(value, one.name)) for one in fields(_CLASSES[name])}}
    raise TypeError(f"graph as text: got {name}, expected a value of {', '.join(_CLASSES)}")


def _decode(told: Any) -> Any:
    if isinstance(told, list):
        return tuple(_decode(item) for item in told)
    if not isinstance(told, dict):
        return told
    ((name, content),) = told.items()
    if name == _EMPTY:
        return b""
    if name == "dict":
        return {_decode(key): _decode(item) for key, item in content}
    found = _CLASSES[name]
    if issubclass(found, StrEnum):
        return found(content)
    return found(**{key: _decode(item) for key, item in content.items()})
