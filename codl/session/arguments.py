"""Inputs and outputs of a model as a session describes them."""

from collections.abc import Iterable, Mapping

from codl.frontend import Argument, Metadata
from codl.ir.graph import Tensor
from codl.values import ModelMetadata, NodeArg


def bind_arguments(arguments: Iterable[Argument], lengths: Mapping[str, int]) -> tuple[Argument, ...]:
    """Return arguments with numbers in place of the free dimensions that ``lengths`` names."""
    return tuple(
        Argument(
            name=argument.name,
            shape=tuple(lengths.get(d, d) if isinstance(d, str) else d for d in argument.shape),
            type=argument.type,
        )
        for argument in arguments
    )


def fix_argument(argument: Argument, tensor: Tensor) -> Argument:
    """Return an output as the graph knows it; what it finds out at run time stays as declared."""
    shape = argument.shape if tensor.is_on_host and not tensor.shape else tensor.shape
    return Argument(name=argument.name, shape=shape, type=argument.type or tensor.type)


def is_fixed(arguments: Iterable[Argument]) -> bool:
    """Return whether every dimension is a number."""
    return all(isinstance(dim, int) for argument in arguments for dim in argument.shape)


def describe_argument(argument: Argument) -> NodeArg:
    """Return an argument as users see it: a free dimension without a name is None."""
    return NodeArg(
        name=argument.name,
        shape=[None if dim == f"{argument.name}[{axis}]" else dim for axis, dim in enumerate(argument.shape)],
        type=argument.type,
    )


def describe_model(metadata: Metadata) -> ModelMetadata:
    """Return a model's own words as users see them."""
    return ModelMetadata(
        producer_name=metadata.producer_name,
        graph_name=metadata.graph_name,
        domain=metadata.domain,
        description=metadata.description,
        graph_description=metadata.graph_description,
        version=metadata.version,
        custom_metadata_map=dict(metadata.custom),
    )
