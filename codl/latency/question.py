"""What may be asked about an operator: what slices of it take on each device."""

from dataclasses import dataclass

from codl.catalog.spec import Selection
from codl.ir.graph import Node
from codl.ir.regions import OutputBoxes


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What slices of one operator take on each device."""

    node: Node
    out: OutputBoxes
    """Boxes of the node's output, none of them empty."""
    selections: tuple[Selection, ...]
    """By device, what computes it."""
