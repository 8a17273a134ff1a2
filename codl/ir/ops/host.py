"""What no kernel computes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCall:
    """One output of a model that ONNX Runtime runs on the CPU. Inputs: the model's, in its order.

    All outputs of a model are computed at once, by nodes that share a group and their inputs.
    """

    group: str
    """Which of the graph's `host_models`."""
    index: int
    """Place among the model's outputs."""
