"""ONNX models become graphs: reading, checking, simplification, translation, fusion."""

from codl.frontend.loading import LoadedModel, load_graph, load_model
from codl.frontend.reader import Argument

__all__ = ["Argument", "LoadedModel", "load_graph", "load_model"]
