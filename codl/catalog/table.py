"""The table of kernels: every implementation, the preferred one for an operator first."""

from codl.catalog.rows import (
    concat,
    conv2d,
    conv2d_affine,
    conv2d_blocked,
    conv2d_image,
    conv2d_patch,
    conv2d_pointwise,
    conv2d_pool,
    conv2d_winograd,
    conv_transpose,
    copy,
    depthwise,
    matmul,
    normalize,
    pad,
    pixel_image,
    pointwise,
    pool,
    reduce,
    reshape,
    resize,
    shuffle,
    softmax,
)
from codl.catalog.spec import Implementation

IMPLEMENTATIONS: tuple[Implementation, ...] = (
    *depthwise.IMPLEMENTATIONS,
    *conv2d_winograd.IMPLEMENTATIONS,
    *conv2d_blocked.IMPLEMENTATIONS,
    *conv2d_pointwise.IMPLEMENTATIONS,
    *conv2d_patch.IMPLEMENTATIONS,
    *conv2d.IMPLEMENTATIONS,
    *conv_transpose.IMPLEMENTATIONS,
    *matmul.IMPLEMENTATIONS,
    *pool.IMPLEMENTATIONS,
    *pointwise.IMPLEMENTATIONS,
    *reduce.IMPLEMENTATIONS,
    *normalize.IMPLEMENTATIONS,
    *softmax.IMPLEMENTATIONS,
    *concat.IMPLEMENTATIONS,
    *shuffle.IMPLEMENTATIONS,
    *copy.IMPLEMENTATIONS,
    *pad.IMPLEMENTATIONS,
    *resize.IMPLEMENTATIONS,
    *reshape.IMPLEMENTATIONS,
    *conv2d_image.IMPLEMENTATIONS,
    *pixel_image.IMPLEMENTATIONS,
)
PAIRS: tuple[Implementation, ...] = (*conv2d_affine.IMPLEMENTATIONS, *conv2d_pool.IMPLEMENTATIONS)
"""Rows over two nodes: they accept the second one and read what the first one reads."""
