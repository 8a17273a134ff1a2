"""What a user may ask of a session, under the names onnxruntime uses where it has them."""

import os
from collections.abc import Sequence

from codl.plan.steps import Plan


class SessionOptions:
    """Options of an `InferenceSession`; set the attributes you need."""

    def __init__(self) -> None:
        self.devices: Sequence[str] | None = None
        """Device names or kinds; None for the defaults."""
        self.planner: str | None = None
        """`even` or `single:<device>`; None runs everything on the first default device."""
        self.plan: Plan | str | os.PathLike[str] | None = None
        """Use this plan."""
        self.ratios: Sequence[float] | None = None
        """Share of each device under `even`; equal shares by default."""
        self.axes: Sequence[int] | None = None
        """Axes to cut along under `even`, most wanted first; H, OC, N by default."""
        self.max_chain_length: int = 8
        self.free_dimensions: dict[str, int] = {}
        """Values of the model's symbolic dimensions by name."""

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Give a symbolic dimension of the model a value."""
        self.free_dimensions[name] = value
