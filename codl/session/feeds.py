"""Feeds of a run, checked against what the model declares before anything is computed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from codl.errors import InputError, InputTypeError, suggest
from codl.frontend.declared import Argument
from codl.values import Array, OrtValue, find_dtype, is_tensor_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Feeds:
    """Arrays of the declared types and ranks, none of them copied unless it had to be converted."""

    inputs: Mapping[str, Any]
    """Arrays, and whatever stands for inputs that are no tensors."""
    initializers: Mapping[str, Array]
    """Given in place of initializers that are inputs too."""


def check_feeds(feed: Any, *, inputs: Sequence[Argument], overridable: Sequence[Argument]) -> Feeds:
    """Return what a user feeds as arrays.

    Args:
        feed: A mapping of names to arrays, `OrtValue`, or nested lists, as onnxruntime takes them.
        inputs: Arguments that must be fed. Dimensions that are numbers must match.
        overridable: Arguments that may be fed.

    Raises:
        InputError: A feed is missing, unknown, or of the wrong type, rank or shape.
    """
    if not isinstance(feed, Mapping):
        raise InputTypeError(f"feeds: got {type(feed).__name__}, expected a dict of names to arrays")
    given = {
        argument.name: _check_feed(argument, feed[argument.name])
        for argument in (*inputs, *overridable)
        if argument.name in feed
    }
    names = [argument.name for argument in inputs]
    if len(given) < len(feed):
        extra = next(name for name in feed if name not in given)
        raise InputError(
            f"input {extra!r}: got a feed, expected none but {names}: the model has no such input"
            f"{suggest(str(extra), [argument.name for argument in (*inputs, *overridable)])}"
        )
    for argument in inputs:
        if argument.name not in given:
            raise InputError(f"input {argument.name!r}: missing, expected {_describe(argument)}")
    return Feeds(
        inputs={name: given[name] for name in names},
        initializers={a.name: given[a.name] for a in overridable if a.name in given},
    )


def check_output_names(names: Any, known: Sequence[str]) -> tuple[str, ...]:
    """Return the outputs asked for, all of them where none is named.

    Raises:
        InputError: The model has no output of a name.
    """
    if names is None:
        return tuple(known)
    if isinstance(names, str | Mapping) or not isinstance(names, Iterable):
        raise InputTypeError(f"outputs: got {names!r}, expected a list of names")
    wanted = tuple(names) or tuple(known)
    for name in wanted:
        if not isinstance(name, str):
            raise InputTypeError(f"outputs: got the name {name!r}, expected text")
        if name not in known:
            raise InputError(
                f"output {name!r}: the model has no such output, expected one of {list(known)}"
                f"{suggest(name, known)}"
            )
    return wanted


def _check_feed(argument: Argument, value: Any) -> Any:
    if isinstance(value, OrtValue):
        value = value.numpy()
    if not is_tensor_type(argument.type):
        return (
            value  # a list or dict of values, or of a type that numpy does not have: ONNX Runtime checks it
        )
    name, dtype = argument.name, find_dtype(argument.type)
    if isinstance(value, list):
        value = _convert_list(argument, value, dtype)
    elif isinstance(value, np.generic):  # a number of numpy's is a tensor without axes
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        raise InputError(
            f"input {name!r}: got {type(value).__name__}, expected a numpy array of {_describe(argument)}"
        )
    if not _is_of_type(value, dtype):
        raise InputError(f"input {name!r}: got dtype {value.dtype}, expected {_describe(argument)}")
    if not argument.has_rank:
        return value
    if value.ndim != len(argument.shape):
        raise InputError(f"input {name!r}: got rank {value.ndim}, expected {_describe(argument)}")
    for length, declared in zip(value.shape, argument.shape, strict=True):
        if length != declared and isinstance(declared, int):
            raise InputError(f"input {name!r}: got shape {list(value.shape)}, expected {_describe(argument)}")
    return value


def _is_of_type(value: Array, dtype: np.dtype[Any]) -> bool:
    """Return whether an array has elements of a type, in whatever byte order; text has several types."""
    if dtype.kind == "O":
        return value.dtype.kind in "OUS"
    return value.dtype == dtype or value.dtype.newbyteorder("=") == dtype


def _convert_list(argument: Argument, value: list[Any], dtype: np.dtype[Any]) -> Array:
    try:
        return np.array(value, dtype)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"input {argument.name!r}: got a list that is no array ({error}), expected {_describe(argument)}"
        ) from error


def _describe(argument: Argument) -> str:
    shape = list(argument.shape) if argument.has_rank else "any"
    return f"{find_dtype(argument.type)} of shape {shape}"
