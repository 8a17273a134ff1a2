"""Kernel sources as text: includes resolved, parameters as build options; what tells one from another."""

import hashlib
import re
from functools import cache

from codl.assets import read_kernel
from codl.catalog.epilogue import CODES
from codl.catalog.spec import Implementation, Parameters
from codl.catalog.walking import CASES

_INCLUDE = '\n#include "'
_GENERATED = {"common/codes.h": CODES, "walk/cases.h": CASES}
_ACTIVATIONS = ("common/codes.h", "common/activate.h")
"""What an added activation changes, and no kernel's time."""
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


@cache
def read_source(path: str, without: tuple[str, ...] = ()) -> str:
    """Return a kernel source with its includes put in place.

    One self-contained text is what a cache can key on and what a driver can
    compile wherever the files lie.

    Args:
        path: Relative to kernels/.
        without: Includes that are left out.
    """
    if path in _GENERATED:
        return _GENERATED[path]
    first, *others = f"\n{read_kernel(path)}".split(_INCLUDE)
    return "".join([first, *(_put_in_place(other, without) for other in others)]).removeprefix("\n")


def _put_in_place(text: str, without: tuple[str, ...]) -> str:
    """Return a file and what follows, given the rest of a text behind the opening quote of an include."""
    line, newline, rest = text.partition("\n")
    path, quote, end = line.partition('"')
    is_include = path and quote and not end.strip(" \t")
    if not is_include:
        return _INCLUDE + text
    return f"\n{'' if path in without else read_source(path, without)}{newline}{rest}"


def digest_row(row: Implementation) -> str:
    """Return a digest of a row's kernel sources, as `digest_sources` does."""
    return digest_sources(row.source, *row.other_sources)


@cache
def digest_sources(*paths: str) -> str:
    """Return a SHA-256 over preprocessed kernel sources: measurements of them hold while it stays.

    Includes are resolved, but for the activations; comments, indents and empty lines are left out.
    """
    text = _COMMENT.sub(" ", "\n".join(read_source(path, _ACTIVATIONS) for path in paths))
    lines = (" ".join(line.split()) for line in text.splitlines())
    return hashlib.sha256("\n".join(line for line in lines if line).encode()).hexdigest()[:16]


def build_options(parameters: Parameters) -> str:
    """Return the compiler options that set ``parameters``: the only defines there are.

    Parameters in small letters are arguments of launches.
    """
    defines = [f"-D{name}={value}" for name, value in sorted(parameters.items()) if name.isupper()]
    return " ".join(["-cl-std=CL1.2", *defines])
