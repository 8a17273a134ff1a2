"""Kernel sources as text: includes resolved, parameters as build options."""

import re
from functools import cache

from codl.assets import read_kernel
from codl.catalog.spec import Parameters

_INCLUDE = re.compile(r'#include "([^"]+)"[ \t]*')


@cache
def read_source(path: str) -> str:
    """Return the kernel file ``path`` (relative to kernels/) with its includes put in place.

    One self-contained text is what a cache can key on and what a driver can
    compile wherever the files lie.
    """
    lines = read_kernel(path).split("\n")
    for place, line in enumerate(lines):
        found = _INCLUDE.fullmatch(line) if line.startswith("#") else None
        if found is not None:
            lines[place] = read_source(found[1])
    return "\n".join(lines)


def build_options(parameters: Parameters) -> str:
    """Return the compiler options that set ``parameters``: the only defines there are."""
    return " ".join(["-cl-std=CL1.2", *(f"-D{name}={value}" for name, value in sorted(parameters.items()))])
