"""Inputs and outputs of a model as a session describes them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from codl.frontend.declared import Argument, name_open_dimension
from codl.values import NodeArg

if TYPE_CHECKING:
    from codl.ir.graph import Tensor


def bind_arguments(arguments: Iterable[Argument], lengths: Mapping[str, int]) -> tuple[Argument, ...]:
    """Return arguments with numbers in place of the free dimensions that ``lengths`` names."""
    return tuple(
        replace(
            argument,
            shape=tuple(lengths.get(d, d) if isinstance(d, str) else d for d in argument.shape),
        )
        for argument in arguments
    )


def fix_argument(argument: Argument, tensor: "Tensor") -> Argument:
    """Return an output as the graph knows it; what it finds out at run time stays as declared."""
    shape = argument.shape if tensor.is_on_host and not tensor.shape else tensor.shape
    return Argument(name=argument.name, shape=shape, type=argument.type or tensor.type)


def is_fixed(arguments: Iterable[Argument]) -> bool:
    """Return whether every rank is known and every dimension a number."""
    return all(a.has_rank and all(isinstance(dim, int) for dim in a.shape) for a in arguments)


def describe_argument(argument: Argument) -> NodeArg:
    """Return an argument as users see it: a free dimension without a name is None."""
    return NodeArg(
        name=argument.name,
        shape=[
            None if dim == name_open_dimension(argument.name, axis) else dim
            for axis, dim in enumerate(argument.shape)
        ],
        type=argument.type,
    )
