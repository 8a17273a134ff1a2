"""Graphs kept between processes: a model seen before is neither simplified nor translated again.

An entry stands under the SHA-256 of the model, the shapes of its inputs, and all code that has a part in the
graph: codl's own, onnx, onnxruntime. Constants come back as read-only arrays mapped from the file.

Source:
    ResNet-50 and VGG-16 on a Zen 5: 0.30 and 5.9 s to make the graph, 0.02 and 0.1 s to have it back.
"""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import onnx

from codl.assets import digest_code
from codl.cache.folders import MODELS
from codl.cache.sealed import Array, SealedFile
from codl.errors import CacheError
from codl.frontend.declared import Shapes
from codl.frontend.graph_text import format_graph, parse_graph, strip
from codl.frontend.reader import Source
from codl.ir.check import check_graph
from codl.ir.graph import Graph
from codl.runtime import onnxruntime

LEAST_BYTES = 1 << 20
"""Graphs with fewer bytes of constants are made as fast as they are read."""
_READERS = 4
"""Threads that read constants."""
_TEXT = "graph"
_CONSTANT = "constant "
_HOST_MODEL = "host model "


def load_kept_graph(source: Source, *, shapes: Shapes) -> Graph | None:
    """Return the graph of a model for these input shapes, or None when it is not kept."""
    return MODELS.read(_make_key(source, shapes), read_graph)


def keep_graph(graph: Graph, source: Source, *, shapes: Shapes) -> Graph:
    """Return the graph with its digest, kept for later processes if it is worth that.

    Constants of a kept graph are those of its file: memory need not hold them.
    """
    key = _make_key(source, shapes)
    size = sum(value.nbytes for value in graph.constants.values())
    size += sum(len(model.content) for model in graph.host_models.values())
    if size < LEAST_BYTES:
        return graph
    known = replace(graph, digest=key)
    try:
        text = format_graph(known)
    except TypeError:
        return known
    if parse_graph(text, {}) == strip(known):
        arrays: dict[str, Array] = {_TEXT: np.frombuffer(text.encode(), np.uint8)}
        arrays |= {_CONSTANT + name: value for name, value in graph.constants.items()}
        for group, model in graph.host_models.items():
            arrays[_HOST_MODEL + group] = np.frombuffer(model.content, np.uint8)
        words = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in shapes.items())
        if MODELS.write(key, arrays, about={"what": f"{source.label} {words}"}):
            return MODELS.read(key, read_graph) or known
    return known


def read_graph(entry: SealedFile) -> Graph:
    """Return the graph of a kept file.

    Raises:
        CacheError: It holds none.
    """
    names = [name for name in entry if name.startswith(_CONSTANT)]
    with ThreadPoolExecutor(_READERS) as readers:  # what takes time is their check
        arrays = readers.map(entry.floats, names)
        constants = {name.removeprefix(_CONSTANT): array for name, array in zip(names, arrays, strict=True)}
    contents = {
        name.removeprefix(_HOST_MODEL): entry.text(name) for name in entry if name.startswith(_HOST_MODEL)
    }
    try:
        graph = parse_graph(entry.text(_TEXT).decode(), constants, contents)
        check_graph(graph)
        return graph
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # values of other types than meant
        raise CacheError(f"{entry.path}: holds no graph ({error}); remove it") from error


def _make_key(source: Source, shapes: Shapes) -> str:
    facts = [
        source.digest,
        sorted(map(repr, shapes.items())),  # a damaged model may have a name that is no text
        digest_code("frontend", "ir"),
        onnx.__version__,
        onnxruntime.__version__,
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
