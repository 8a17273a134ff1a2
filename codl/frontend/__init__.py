"""ONNX models become graphs: reading, checking, simplification, translation, fusion."""

from typing import TYPE_CHECKING

from codl.frontend.declared import Argument
from codl.lazy import find_lazily

if TYPE_CHECKING:
    from codl.frontend.loading import LoadedModel, load_graph, load_model, load_source, open_model
    from codl.frontend.reader import Source

__all__ = [
    "Argument",
    "LoadedModel",
    "Source",
    "load_graph",
    "load_model",
    "load_source",
    "open_model",
]
__getattr__ = find_lazily(
    __name__,
    {
        "codl.frontend.loading": ("LoadedModel", "load_graph", "load_model", "load_source", "open_model"),
        "codl.frontend.reader": ("Source",),
    },
)
