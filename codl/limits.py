"""Bounds on what a model may ask for, so that no file can take a machine's memory or time."""

from dataclasses import dataclass, fields

from codl.errors import InputError

GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on what a model may ask for; more is a `ModelError` before memory or time is spent.

    The defaults leave room for every model that codl is meant for. Raise one for a larger model;
    lower them where strangers choose the models.

    Raises:
        InputError: A bound is no whole number of 1 or more.
    """

    model_bytes: int = 2 * GIB
    """Size of a model's file or bytes, without external weights."""
    nodes: int = 50_000
    """Nodes after functions are expanded, those of branches and loop bodies included."""
    nesting: int = 64
    """Depth of branches and loop bodies inside each other, and of functions that call functions."""
    function_calls: int = 10_000
    """Calls of functions after expansion: a function that calls another one twice makes two more a call."""
    initializer_bytes: int = 16 * GIB
    """Bytes of a model's weights, external ones included."""
    tensor_elements: int = 2**31 - 1
    """Elements of one tensor."""
    folded_bytes: int = GIB
    """Bytes of constants computed while a model is loaded, beyond three times those of its own weights."""
    planned_bytes: int = 8 * GIB
    """Bytes of activations of all devices and of the host together."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"limits.{field.name}: got {value!r}, expected a whole number of 1 or more")


DEFAULT_LIMITS = Limits()
