"""Region rules of operators that need all of their inputs, whatever is asked of them."""

from collections.abc import Sequence

from codl.ir.boxes import Boxes
from codl.ir.graph import Shape
from codl.ir.ops import HostCall


def host_call(_: HostCall, shapes: Sequence[Shape], __: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Return whole inputs: a host call is never cut."""
    return tuple(Boxes.whole(shape, out.count) for shape in shapes)
