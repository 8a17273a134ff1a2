"""What a model declares: its inputs and outputs, and what it says about itself."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

DeclaredShape = tuple[int | str, ...]
Shapes = Mapping[str, tuple[int, ...]]
"""Input name -> its shape."""
Values = Mapping[str, npt.NDArray[Any]]
"""Initializer name -> what takes its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An input or output as the model declares it."""

    name: str
    shape: DeclaredShape
    """A free dimension by its name; one without a name is `input[axis]`. Empty for what is no tensor."""
    type: str
    """ONNX's words, such as `tensor(float)`."""
    has_rank: bool = True
    """False for a tensor that may have any number of axes; its shape is empty."""


def name_open_dimension(argument: str, axis: int) -> str:
    """Return what stands for a free dimension without a name."""
    return f"{argument}[{axis}]"


def name_model(model: str | os.PathLike[str] | bytes) -> str:
    """Return the words for a model in messages."""
    return "model (bytes)" if isinstance(model, bytes) else Path(model).name
