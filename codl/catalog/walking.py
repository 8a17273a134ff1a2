"""Which kernels the device's walker can call: the cases of kernels/walk/walk__buffer.cl."""

from codl.catalog.spec import LaunchBatch, Parameters

WALKER, WALKER_ENTRY = "walk/walk__buffer.cl", "walk__buffer"
WORDS = 64
"""Integers of a descriptor on the tape."""
HEAD_WORDS = 4
"""Of them before the case's own: the case, whether a barrier comes before, which group begins, 0."""
TENSOR_BUFFERS = 4
"""Buffers in which tensors of a walk may lie; one behind them is that of constants."""
_TILES = ((32, 32), (56, 128), (64, 64), (112, 64), (128, 64), (128, 128))
_WINOGRAD = ("INPUTS_2", "INPUTS_4", "112x64", "56x128", "OUTPUTS_2", "OUTPUTS_4")
_ENTRIES = {
    "pointwise_lanes__buffer": "POINTWISE",
    "depthwise_lanes__buffer": "DEPTHWISE",
    "pool2d_lanes__buffer": "POOL",
    "sum_lanes__buffer": "SUM",
    "softmax_group__buffer": "SOFTMAX",
    "layer_norm_group__buffer": "LAYER_NORM",
    "mean_group__buffer": "MEAN",
    "response_norm_lanes__buffer": "RESPONSE_NORM",
    "resize2d_lanes__buffer": "RESIZE",
    "moments_rows_group__buffer": "MOMENTS_ROWS",
    "moments_combine_group__buffer": "MOMENTS_COMBINE",
    "reshape_lanes__buffer": "RESHAPE",
}
_MATMULS = (32, 64)
_ATTENTIONS = (16, 32)
_NAMES = (
    "NOTHING",
    *(f"TILE_{rows}x{columns}" for rows, columns in _TILES),
    *(f"MATMUL_{rows}" for rows in _MATMULS),
    *(f"ATTENTION_{rows}" for rows in _ATTENTIONS),
    *(f"WINOGRAD_{name}" for name in _WINOGRAD),
    *_ENTRIES.values(),
    "LINEAR_VECTOR",
    "LINEAR_MATRIX",
)
POINTWISE_FUNCTIONS = ("ADD", "MUL", "SUB", "DIV", "PRELU", "AFFINE", "COPY")
"""What pointwise_lanes__buffer computes, by code."""
CASES = "".join(
    [
        *(f"#define WALK_{name} {code}\n" for code, name in enumerate(_NAMES)),
        *(f"#define POINTWISE_{name} {code}\n" for code, name in enumerate(POINTWISE_FUNCTIONS)),
        f"#define WORDS {WORDS}\n",
    ]
)
"""The file walk/cases.h that kernels include."""


def find_case(batch: LaunchBatch, parameters: Parameters) -> int | None:
    """Return the walker's case of a launch of a row with its parameters; None where it has none."""
    entry = batch.entry
    if batch.source is not None:
        return None
    if entry == "conv2d_tile__buffer":
        return _NAMES.index(f"TILE_{parameters['BM']}x{parameters['BN']}")
    if entry == "matmul_tile__buffer":
        return _NAMES.index(f"MATMUL_{parameters['BM']}")
    if entry == "attention_tile__buffer":
        return _NAMES.index(f"ATTENTION_{parameters['BM']}")
    if entry == "conv2d_winograd_tile__buffer":
        tile = parameters["TILE"]
        stages = (f"INPUTS_{tile}", f"{parameters['BM']}x{parameters['BN']}", f"OUTPUTS_{tile}")
        return _NAMES.index(f"WINOGRAD_{stages[int(batch.scalars['stage'][0])]}")
    if entry == "linear_rows__buffer":
        return _NAMES.index("LINEAR_VECTOR" if batch.scalars["is_vector"][0] else "LINEAR_MATRIX")
    return _NAMES.index(_ENTRIES[entry]) if entry in _ENTRIES else None
