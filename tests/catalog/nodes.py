"""Sample nodes for tests of the catalog: operators of one family each, and a device without hardware."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from codl.ir.graph import Graph, Node, Shape, Tensor
from codl.ir.ops import Conv2d, ConvTranspose2d, MatMul, Op
from codl.machine import DeviceInfo, DeviceKind


class Sample(NamedTuple):
    """A graph of one node and the row that should compute it."""

    graph: Graph
    row: str

    @property
    def node(self) -> Node:
        """The one node."""
        return self.graph.nodes[0]


def sample(op: Op, shapes: Mapping[str, Shape], constants: tuple[str, ...], out: Shape, row: str) -> Sample:
    """Return a graph of one node that writes `y`; constants are zeros."""
    tensors = {name: Tensor(name=name, shape=shape) for name, shape in ({**shapes, "y": out}).items()}
    graph = Graph(
        name="sample",
        nodes=(Node(name="node", op=op, inputs=tuple(shapes), output="y"),),
        inputs=tuple(name for name in shapes if name not in constants),
        outputs=("y",),
        tensors=tensors,
        constants={name: np.zeros(shapes[name], np.float32) for name in constants},
    )
    return Sample(graph, row)


def conv(channels: int, outputs: int, size: int, *, groups: int = 1, tile: int = 1, row: str = "") -> Sample:
    """Return a 3x3 convolution of an image of ``size`` x ``size``."""
    usual = "depthwise_conv2d_rows__buffer" if groups == channels == outputs else "conv2d_gemm__buffer"
    return sample(
        Conv2d(kernel=(3, 3), pads=(1, 1, 1, 1), groups=groups, tile=(tile, tile)),
        {"x": (1, channels, size, size), "w": (outputs, channels // groups, 3, 3)},
        ("w",),
        (1, outputs, size, size),
        row or usual,
    )


NODES = {
    "conv-large": conv(16, 64, 28),
    "conv-few-channels": conv(16, 3, 28),
    "conv-one-pixel": conv(8, 200, 1),
    "conv-small-image": conv(128, 200, 7, row="conv2d_blocked__buffer"),
    "conv-groups": conv(16, 32, 7, groups=4),
    "conv-in-tiles": conv(32, 64, 28, tile=4, row="conv2d_winograd_fused__buffer"),
    "conv-in-tiles-deep": conv(512, 512, 28, tile=4, row="conv2d_winograd_streamed__buffer"),
    "conv-in-tiles-small": conv(512, 512, 7, tile=2, row="conv2d_winograd_staged__buffer"),
    "depthwise": conv(24, 24, 14, groups=24),
    "depthwise-multiplied": conv(8, 16, 14, groups=8),
    "conv-transposed": sample(
        ConvTranspose2d(kernel=(4, 4), stride=(2, 2), pads=(1, 1, 1, 1)),
        {"x": (1, 16, 14, 14), "w": (16, 24, 4, 4)},
        ("w",),
        (1, 24, 28, 28),
        "conv_transpose2d_rows__buffer",
    ),
    "vector-times-constant": sample(
        MatMul(), {"a": (1, 64), "b": (64, 1000)}, ("b",), (1, 1000), "gemm_packed__buffer"
    ),
    "matrix-times-constant": sample(
        MatMul(), {"a": (4, 50, 64), "b": (64, 20)}, ("b",), (4, 50, 20), "gemm_packed__buffer"
    ),
    "matrix-times-matrix": sample(
        MatMul(), {"a": (4, 50, 64), "b": (4, 64, 20)}, (), (4, 50, 20), "gemm_plain__buffer"
    ),
    "heads-times-constant": sample(
        MatMul(), {"a": (1, 4, 50, 64), "b": (64, 20)}, ("b",), (1, 4, 50, 20), "gemm_plain__buffer"
    ),
}


def device_info(vector_width: int) -> DeviceInfo:
    """Return the facts of a CPU that does not exist."""
    return DeviceInfo(
        name="test-cpu",
        kind=DeviceKind.CPU,
        driver="test",
        device_name="test",
        platform_name="test",
        platform_version="OpenCL 1.2",
        driver_version="1",
        processor="test",
        units=4,
        vector_width=vector_width,
        work_group_multiple=1,
        max_work_group_size=1024,
        local_memory_bytes=1 << 20,
        global_memory_bytes=2**32,
        alignment_bytes=128,
        has_images=False,
        has_fp16=False,
        is_unified=True,
    )
