"""ONNX models become graphs: reading, checking, simplification, translation, fusion."""

from codl.frontend.loading import LoadedModel, load_graph, load_model, load_source, open_model
from codl.frontend.reader import Argument, Metadata, Source

__all__ = [
    "Argument",
    "LoadedModel",
    "Metadata",
    "Source",
    "load_graph",
    "load_model",
    "load_source",
    "open_model",
]
