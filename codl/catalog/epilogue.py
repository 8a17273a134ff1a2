"""Epilogue codes: the scalars by which kernels/common/epilogue.h knows what to do."""

import numpy as np

from codl.catalog.spec import Scalar
from codl.ir.ops import FUNCTIONS, Epilogue, ResidualOrder

_CODES = {kind: code for code, kind in enumerate(FUNCTIONS)}
_RESIDUALS = {order: code for code, order in enumerate(ResidualOrder)}
CODES = "".join(
    f"#define {title}_{name.name} {code}\n"
    for title, codes in (("ACTIVATION", _CODES), ("RESIDUAL", _RESIDUALS))
    for name, code in codes.items()
)
"""The file common/codes.h that kernels include."""


def epilogue_scalars(epilogue: Epilogue, count: int) -> dict[str, Scalar]:
    """Return the scalars of EPILOGUE_SCALARS in their order, repeated for ``count`` candidates."""
    activation = epilogue.activation
    return {
        "residual_order": np.full(count, _RESIDUALS[epilogue.residual], np.int64),
        "activation": np.full(count, _CODES[activation.kind], np.int64),
        "alpha": np.full(count, activation.alpha, np.float32),
        "beta": np.full(count, activation.beta, np.float32),
    }


def activation_scalars(name: str, epilogue: Epilogue, count: int) -> dict[str, Scalar]:
    """Return the activation of a node before a launch's last one: `<name>_activation` and so on."""
    known = epilogue_scalars(epilogue, count)
    return {f"{name}_{one}": known[one] for one in ("activation", "alpha", "beta")}
