"""Epilogue codes: the scalars by which kernels/common/epilogue.h knows what to do."""

import numpy as np

from codl.catalog.spec import Scalar
from codl.ir.ops import ActivationKind, Epilogue, ResidualOrder

_ACTIVATIONS = {
    ActivationKind.IDENTITY: 0,
    ActivationKind.RELU: 1,
    ActivationKind.CLIP: 2,
    ActivationKind.LEAKY_RELU: 3,
    ActivationKind.ELU: 4,
    ActivationKind.SIGMOID: 5,
    ActivationKind.HARD_SIGMOID: 6,
    ActivationKind.HARD_SWISH: 7,
    ActivationKind.TANH: 8,
}
PLAIN_ACTIVATIONS = (
    ActivationKind.IDENTITY,
    ActivationKind.RELU,
    ActivationKind.CLIP,
    ActivationKind.LEAKY_RELU,
)
"""Those of kernels/common/plain.h."""
_RESIDUALS = {ResidualOrder.NONE: 0, ResidualOrder.BEFORE: 1, ResidualOrder.AFTER: 2}


def epilogue_scalars(epilogue: Epilogue, count: int) -> dict[str, Scalar]:
    """Return the scalars of EPILOGUE_SCALARS in their order, repeated for ``count`` candidates."""
    activation = epilogue.activation
    return {
        "residual_order": np.full(count, _RESIDUALS[epilogue.residual], np.int64),
        "activation": np.full(count, _ACTIVATIONS[activation.kind], np.int64),
        "alpha": np.full(count, activation.alpha, np.float32),
        "beta": np.full(count, activation.beta, np.float32),
    }


def activation_scalars(name: str, epilogue: Epilogue, count: int) -> dict[str, Scalar]:
    """Return the activation of a node before a launch's last one: `<name>_activation` and so on."""
    known = epilogue_scalars(epilogue, count)
    return {f"{name}_{one}": known[one] for one in ("activation", "alpha", "beta")}
