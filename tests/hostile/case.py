"""One model of the campaign: its bytes, the files around it, and what it is fed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FAMILIES = ("valid", "odd", "hostile", "damaged")


@dataclass(frozen=True, kw_only=True)
class Link:
    """A file that is no regular one with bytes: a symbolic link, a pipe, or one of so many zero bytes."""

    to: str = ""
    size: int = 0
    is_pipe: bool = False


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model, given as a file or as bytes."""

    name: str
    """Family, seed and number: all that it takes to make it again."""
    what: str
    """What is special about it, for people."""
    content: bytes
    feeds: Mapping[str, Any]
    files: Mapping[str, bytes | Link] = field(default_factory=dict)
    """Other files, relative to the model's folder."""
    is_file: bool = False
    is_pair: bool = False
    """Whether two devices share the work in equal parts."""
    spreads_nan: bool = False
    """Whether NaN may reach more outputs than in ONNX Runtime: those of a tile of Winograd."""
