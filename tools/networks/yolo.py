"""YOLOv2 for 20 classes.

Source:
    Redmon and Farhadi, YOLO9000, 2016; the channel counts are those that CoDL was measured on,
    where the head reads 1536 channels: 1024 of its own and 4 x 128 passed through, which a
    1 x 1 convolution makes as in the original.
"""

from tools.networks.graph import GraphBuilder, Tensor
from tools.networks.resnet import norm_conv
from tools.networks.weights import Network

STAGES: tuple[tuple[tuple[int, int], ...], ...] = (
    ((32, 3),),
    ((64, 3),),
    ((128, 3), (64, 1), (128, 3)),
    ((256, 3), (128, 1), (256, 3)),
    ((512, 3), (256, 1), (512, 3), (256, 1), (512, 3)),
    ((1024, 3), (512, 1), (1024, 3), (512, 1), (1024, 3)),
)
"""Channels and kernel of the convolutions of each stage; a max pooling stands between stages."""

PASSTHROUGH_STAGE = 5
PASSTHROUGH_CHANNELS = 128
LEAKY_SLOPE = 0.1
OUTPUT_CHANNELS = 125
"""5 anchor boxes of 4 sides, 1 confidence and 20 classes."""


def yolov2(*, size: int = 416, width: float = 1.0) -> Network:
    """Return YOLOv2, which ends in the raw box map ``(125, size / 32, size / 32)``."""
    net = GraphBuilder(width=width)
    x = net.image(height=size, width=size, multiple=32)
    fine = x
    for index, stage in enumerate(STAGES, start=1):
        with net.scope(f"stage{index}"):
            if index > 1:
                x = net.max_pool(x)
            for channels, kernel in stage:
                x = _layer(net, x, channels=channels, kernel=kernel)
        if index == PASSTHROUGH_STAGE:
            fine = x
    with net.scope("head"):
        for _ in range(2):
            x = _layer(net, x, channels=1024, kernel=3)
        fine = net.space_to_depth(_layer(net, fine, channels=PASSTHROUGH_CHANNELS, kernel=1), block=2)
        x = _layer(net, net.concat([fine, x]), channels=1024, kernel=3)
        boxes = net.rescale(net.conv(x, channels=OUTPUT_CHANNELS, kernel=1))
    return net.finish(boxes, name="yolov2")


def _layer(net: GraphBuilder, x: Tensor, *, channels: int, kernel: int) -> Tensor:
    x = norm_conv(net, x, channels=net.scaled(channels), kernel=kernel)
    return net.leaky_relu(x, slope=LEAKY_SLOPE)
