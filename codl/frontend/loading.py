"""Loads an ONNX model as a `Graph`: read, check, simplify, translate, fuse."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from codl.errors import ModelError, UnsupportedError
from codl.frontend.binding import bind, find_shapes
from codl.frontend.bounds import check_elements, check_expansion
from codl.frontend.declared import Argument, Shapes, Values, name_model
from codl.frontend.external import NOTHING, InMemory
from codl.frontend.fusion import fuse
from codl.frontend.graph_cache import keep_graph, load_kept_graph
from codl.frontend.host import settle
from codl.frontend.reader import Source, read_source
from codl.frontend.refusal import RefusedError
from codl.frontend.simplify import simplify
from codl.frontend.structure import check_structure
from codl.frontend.tiling import mark_tiles
from codl.frontend.translate import translate
from codl.frontend.validity import check_nodes
from codl.frontend.whole import leave_whole
from codl.ir.check import check_graph, check_shapes
from codl.ir.graph import Graph
from codl.limits import DEFAULT_LIMITS, Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A graph ready to plan, and how the model declared its arguments."""

    graph: Graph
    inputs: tuple[Argument, ...]
    """In the order of `graph.inputs`."""
    outputs: tuple[Argument, ...]
    """In the order of `graph.outputs`, each once, under the model's names."""
    path: str | None
    """None for a model given as bytes."""


def load_model(
    model: str | os.PathLike[str] | bytes,
    *,
    dimensions: Mapping[str, int] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> LoadedModel:
    """Return a model as a graph of codl's operators, with its arguments as declared.

    Args:
        model: Path of an ONNX file, perhaps with external weights, or its content.
        dimensions: Values of the free dimensions of the inputs, by name.
        limits: Bounds on what the model may ask for.

    Raises:
        ModelError: The model is broken, or a dimension stays free.
        UnsupportedError: The model is sound, but it has operators that neither codl nor ONNX Runtime has.
    """
    source = open_model(model, limits=limits)
    return load_source(source, shapes=find_shapes(source, dimensions or {}))


def open_model(
    model: str | os.PathLike[str] | bytes, *, limits: Limits = DEFAULT_LIMITS, memory: InMemory = NOTHING
) -> Source:
    """Return a model as it is declared, to be loaded for any shapes of its inputs.

    Args:
        model: Path of an ONNX file, or its content.
        limits: Bounds on what it may ask for.
        memory: External data that is not read from files.

    Raises:
        ModelError: The file cannot be read, is no ONNX model, is too old, or passes a limit.
    """
    try:
        source = read_source(model, limits=limits, memory=memory)
        check_expansion(source.proto, label=source.label, limits=limits)
        return source
    except UnicodeDecodeError as error:  # protobuf decodes names only when they are read
        raise _no_text(name_model(model), error) from error


def load_source(source: Source, *, shapes: Shapes, initializers: Values | None = None) -> LoadedModel:
    """Return an open model as a graph for inputs of these shapes.

    Args:
        source: The model.
        shapes: Shape of every input.
        initializers: What takes the place of initializers for this graph.

    Raises:
        ModelError: The model is broken.
        UnsupportedError: The model is sound, but it has operators that neither codl nor ONNX Runtime has.
    """
    check_elements(shapes, label=source.label, limits=source.limits)
    graph = None if initializers else load_kept_graph(source, shapes=shapes)
    if graph is None:
        graph = _make_graph(source, shapes=shapes, initializers=initializers)
        if not initializers:
            graph = keep_graph(graph, source, shapes=shapes)
    outputs = tuple(
        Argument(
            name=name,
            shape=graph.shape(tensor) if shape is None else shape,
            type=source.output_types[name] or graph.tensors[tensor].type,
        )
        for (name, shape), tensor in zip(source.outputs.items(), graph.outputs, strict=True)
    )
    return LoadedModel(graph=graph, inputs=source.inputs, outputs=outputs, path=source.path)


def _make_graph(source: Source, *, shapes: Shapes, initializers: Values | None) -> Graph:
    bind(source, shapes=shapes, initializers=initializers)
    try:
        check_structure(source)
        check_nodes(source)
        graph = translate(simplify(source), label=source.label, limits=source.limits)
        check_shapes(graph)
        graph = settle(mark_tiles(fuse(graph)))
    except UnicodeDecodeError as error:
        raise _no_text(source.label, error) from error
    except (RefusedError, UnsupportedError) as refusal:
        graph = leave_whole(source, refusal, shapes=shapes, initializers=initializers)
    check_graph(graph)
    return graph


def _no_text(label: str, error: UnicodeDecodeError) -> ModelError:
    return ModelError(
        f"{label}: got a name {error.object!r} that is no UTF-8, expected text; export or download it again"
    )


def load_graph(
    model: str | os.PathLike[str] | bytes,
    *,
    dimensions: Mapping[str, int] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Graph:
    """Return the graph that `load_model` finds."""
    return load_model(model, dimensions=dimensions, limits=limits).graph
