"""A model as a session reads it: with the options' limits, dimensions and values of initializers."""

import os

from codl.frontend import Argument, Source, open_model
from codl.frontend.binding import check_initializers, infer_output_shapes
from codl.frontend.external import InMemory
from codl.options import SessionOptions
from codl.session.arguments import bind_arguments
from codl.session.known import Declared


def read_model(model: str | os.PathLike[str] | bytes, options: SessionOptions) -> tuple[Source, Declared]:
    """Return a model and what it declares.

    Raises:
        ModelError: The model is broken.
        InputError: The options hold a value that is none of an initializer.
    """
    memory = InMemory(files=options.external_files, values=options.initializers)
    source = open_model(model, limits=options.limits, memory=memory)
    check_initializers(source, dict(options.initializers))
    return source, _read_declared(source, options)


def _read_declared(source: Source, options: SessionOptions) -> Declared:
    """Return what a model declares."""
    lengths = {
        name: options.denoted_dimensions[meaning]
        for name, meaning in source.denotations.items()
        if meaning in options.denoted_dimensions
    }
    lengths.update(options.free_dimensions)
    shapes = {**source.outputs, **infer_output_shapes(source)}
    outputs = (
        Argument(name=name, shape=shapes[name] or (), type=source.output_types[name])
        for name in source.output_names
    )
    return Declared(
        inputs=bind_arguments(source.inputs, lengths),
        overridable=bind_arguments(source.overridable, lengths),
        outputs=bind_arguments(outputs, lengths),
        output_names=source.output_names,
        metadata=source.metadata,
    )
