"""MobileNetV2.

Source:
    Sandler et al., MobileNetV2, 2018, table 2.
"""

from tools.networks.graph import GraphBuilder, Tensor
from tools.networks.weights import Network

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks, and stride of the first block of each stage."""

STEM_CHANNELS = 32
LAST_CHANNELS = 1280
CLASSES = 1000


def mobilenet_v2(*, size: int = 224, width: float = 1.0) -> Network:
    """Return MobileNetV2, which ends in logits, without softmax."""
    net = GraphBuilder(width=width)
    x = net.image(height=size, width=size, multiple=1)
    with net.scope("stem"):
        x = _layer(net, x, channels=net.scaled(STEM_CHANNELS), kernel=3, stride=2)
    for index, (expansion, channels, blocks, stride) in enumerate(STAGES, start=1):
        for block in range(blocks):
            with net.scope(f"stage{index}/block{block + 1}"):
                x = _inverted_residual(
                    net,
                    x,
                    channels=net.scaled(channels),
                    expansion=expansion,
                    stride=stride if block == 0 else 1,
                )
    with net.scope("classifier"):
        x = _layer(net, x, channels=net.scaled(LAST_CHANNELS), kernel=1)
        x = net.flatten(net.global_average_pool(x))
        logits = net.rescale(net.gemm(x, features=CLASSES))
    return net.finish(logits, name="mobilenet_v2")


def _inverted_residual(net: GraphBuilder, x: Tensor, *, channels: int, expansion: int, stride: int) -> Tensor:
    """Add expansion, depthwise and projection, and the shortcut where shapes agree."""
    wide = x
    if expansion != 1:
        wide = _layer(net, x, channels=expansion * x.channels, kernel=1)
    wide = _layer(net, wide, channels=wide.channels, kernel=3, stride=stride, groups=wide.channels)
    narrow = net.batch_norm(net.conv(wide, channels=channels, kernel=1, has_bias=False))
    return net.add(narrow, other=x) if narrow.shape == x.shape else narrow


def _layer(
    net: GraphBuilder, x: Tensor, *, channels: int, kernel: int, stride: int = 1, groups: int = 1
) -> Tensor:
    """Add convolution, batch normalization and clip to ``[0, 6]``."""
    x = net.conv(x, channels=channels, kernel=kernel, stride=stride, groups=groups, has_bias=False)
    return net.relu6(net.batch_norm(x))
