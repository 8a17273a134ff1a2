"""Names of a package that are imported when they are first used: programs wait only for what they use."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def find_lazily(
    package: str,
    homes: Mapping[str, Sequence[str]],
    otherwise: Callable[[str], Any] | None = None,
) -> Callable[[str], Any]:
    """Return a package's `__getattr__`.

    Args:
        package: Its name.
        homes: Module -> names that are imported from it.
        otherwise: Returns what has any other name, or raises AttributeError.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name in home_of:
            found = getattr(import_module(home_of[name]), name)
            setattr(sys.modules[package], name, found)
            return found
        if otherwise is not None:
            return otherwise(name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find
