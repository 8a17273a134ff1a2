"""Which translation each ONNX operator has."""

from collections.abc import Callable
from functools import partial

from codl.frontend import activations, linear, normalization, pooling, resizing, shaping
from codl.frontend.draft import Draft
from codl.frontend.onnx_node import OnnxNode
from codl.frontend.transposed import translate_conv_transpose
from codl.ir.ops import FUNCTIONS, BinaryKind

Translation = Callable[[Draft, OnnxNode], None]

TRANSLATIONS: dict[str, Translation] = {
    **{f.operator: partial(activations.translate_activation, kind) for kind, f in FUNCTIONS.items()},
    "Add": partial(activations.translate_binary, BinaryKind.ADD),
    "AveragePool": pooling.translate_pool,
    "BatchNormalization": normalization.translate_batch_norm,
    "Clip": activations.translate_clip,
    "Concat": shaping.translate_concat,
    "Conv": linear.translate_conv,
    "ConvTranspose": translate_conv_transpose,
    "DepthToSpace": shaping.translate_depth_to_space,
    "Div": partial(activations.translate_binary, BinaryKind.DIV),
    "Dropout": shaping.translate_dropout,
    "Flatten": shaping.translate_reshape,
    "Gemm": linear.translate_gemm,
    "GlobalAveragePool": pooling.translate_global_average,
    "GlobalMaxPool": pooling.translate_global_max,
    "Identity": shaping.translate_identity,
    "InstanceNormalization": normalization.translate_instance_norm,
    "LRN": normalization.translate_response_norm,
    "MatMul": linear.translate_matmul,
    "MaxPool": pooling.translate_pool,
    "Mul": partial(activations.translate_binary, BinaryKind.MUL),
    "PRelu": partial(activations.translate_binary, BinaryKind.PRELU),
    "Pad": resizing.translate_pad,
    "ReduceMean": pooling.translate_reduce_mean,
    "Reshape": shaping.translate_reshape,
    "Resize": resizing.translate_resize,
    "Slice": shaping.translate_slice,
    "Softmax": normalization.translate_softmax,
    "SpaceToDepth": shaping.translate_space_to_depth,
    "Split": shaping.translate_split,
    "Squeeze": shaping.translate_reshape,
    "Sub": partial(activations.translate_binary, BinaryKind.SUB),
    "Sum": activations.translate_sum,
    "Transpose": shaping.translate_transpose,
    "Unsqueeze": shaping.translate_reshape,
    "Upsample": resizing.translate_resize,
}
"""ONNX operator -> its translation."""
