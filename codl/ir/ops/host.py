"""Calls of ONNX Runtime for what no kernel computes."""

from dataclasses import dataclass

from codl.ir.boxes import Boxes, Shape
from codl.ir.ops.operator import Needs, Op, Shapes

__all__ = ["HostCall"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCall(Op):
    """One output of a model that ONNX Runtime runs on the CPU. Inputs: the model's, in its order.

    All outputs of a model are computed at once, by nodes that share a group and their inputs.
    """

    group: str
    """Which of the graph's `host_models`."""
    index: int
    """Place among the model's outputs."""

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """Return the shapes as stated: ONNX Runtime's values are compared with them at run time."""
        return *shapes, output

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return whole inputs: a host call is never cut."""
        return tuple(Boxes.whole(shape, out.count) for shape in shapes)
