"""What the variants of one model have in common."""

from dataclasses import dataclass, field

from codl.executor.weights import SharedWeights
from codl.session.built import BuiltKernels


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """Found by later variants of a session, made by earlier ones."""

    weights: SharedWeights = field(default_factory=SharedWeights)
    kernels: BuiltKernels = field(default_factory=BuiltKernels)
