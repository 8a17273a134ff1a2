"""Kernel sources as text: includes resolved, parameters as build options."""

from functools import cache

from codl.assets import read_kernel
from codl.catalog.spec import Parameters

_INCLUDE = '\n#include "'


@cache
def read_source(path: str) -> str:
    """Return the kernel file ``path`` (relative to kernels/) with its includes put in place.

    One self-contained text is what a cache can key on and what a driver can
    compile wherever the files lie.
    """
    first, *others = f"\n{read_kernel(path)}".split(_INCLUDE)
    return "".join([first, *map(_put_in_place, others)]).removeprefix("\n")


def _put_in_place(text: str) -> str:
    """Return a file and what follows, given the rest of a text behind the opening quote of an include."""
    line, newline, rest = text.partition("\n")
    path, quote, end = line.partition('"')
    is_include = path and quote and not end.strip(" \t")
    return f"\n{read_source(path)}{newline}{rest}" if is_include else _INCLUDE + text


def build_options(parameters: Parameters) -> str:
    """Return the compiler options that set ``parameters``: the only defines there are."""
    return " ".join(["-cl-std=CL1.2", *(f"-D{name}={value}" for name, value in sorted(parameters.items()))])
