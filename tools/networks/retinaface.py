"""RetinaFace on ResNet-50: five pyramid levels, each with a context module and two heads.

Source:
    Deng et al., RetinaFace, 2019. The layer sizes are those that CoDL was measured on: a stage's
    stride sits in its last block, and a max pooling shrinks that block's shortcut. Rows of zeros
    that the measured network added before a convolution belong to the convolution here.
"""

from tools.networks.graph import GraphBuilder, Tensor
from tools.networks.resnet import BRANCH_GAIN, EXPANSION, norm_conv
from tools.networks.weights import Network

STAGES = ((64, 3, 2), (128, 4, 2), (256, 6, 2), (512, 3, 1))
"""Bottleneck channels, blocks, and stride of the last block of each stage."""

TAPS = ((1, 2), (1, 3), (2, 4), (4, 3))
"""Stage and block whose output enters the pyramid, for levels 2 to 5."""

PYRAMID_CHANNELS = 256
CONTEXT_CHANNELS = (128, 64, 64)
BOX_CHANNELS = 12
"""3 anchors of 4 sides."""
CLASS_CHANNELS = 6
"""3 anchors, face or not."""


def retinaface(*, size: int = 640, width: float = 1.0) -> Network:
    """Return the network; output: boxes and classes of levels 2 to 6, flattened and joined."""
    net = GraphBuilder(width=width)
    x = net.image(height=size, width=size, multiple=32)
    levels = _pyramid(net, _backbone(net, x))
    flat: list[Tensor] = []
    for index, level in enumerate(levels, start=2):
        with net.scope(f"head{index}"):
            flat.append(net.flatten(_head(net, level)))
    return net.finish(net.concat(flat), name="retinaface")


def _backbone(net: GraphBuilder, x: Tensor) -> list[Tensor]:
    """Add a ResNet-50 and return the outputs of `TAPS`, finest first."""
    with net.scope("stem"):
        x = net.relu(norm_conv(net, x, channels=net.scaled(64), kernel=7, stride=2))
        x = net.max_pool(x)
    features: list[Tensor] = []
    for stage, (channels, blocks, last_stride) in enumerate(STAGES, start=1):
        for block in range(1, blocks + 1):
            with net.scope(f"stage{stage}/block{block}"):
                stride = last_stride if block == blocks else 1
                x = _bottleneck(net, x, channels=net.scaled(channels), stride=stride)
            if (stage, block) in TAPS:
                features.append(x)
    return features


def _bottleneck(net: GraphBuilder, x: Tensor, *, channels: int, stride: int) -> Tensor:
    """Add 1 x 1, 3 x 3 and 1 x 1 convolutions around a shortcut, projected or pooled."""
    shortcut = x
    if x.channels != EXPANSION * channels:
        shortcut = norm_conv(net, x, channels=EXPANSION * channels, kernel=1)
    if stride != 1:
        shortcut = net.max_pool(shortcut)
    x = net.relu(norm_conv(net, x, channels=channels, kernel=1))
    x = net.relu(norm_conv(net, x, channels=channels, kernel=3, stride=stride))
    x = norm_conv(net, x, channels=EXPANSION * channels, kernel=1, gain=BRANCH_GAIN)
    return net.relu(net.add(x, other=shortcut))


def _pyramid(net: GraphBuilder, features: list[Tensor]) -> list[Tensor]:
    """Return levels 2 to 6: each level adds the next coarser one, doubled, to its features."""
    channels = net.scaled(PYRAMID_CHANNELS)
    *finer, coarsest = features
    with net.scope("pyramid5"):
        level = net.conv(coarsest, channels=channels, kernel=1)
    levels = [level]
    for index, feature in zip((4, 3, 2), reversed(finer), strict=True):
        with net.scope(f"pyramid{index}"):
            lateral = net.conv(feature, channels=channels, kernel=1)
            level = net.conv(net.add(lateral, other=net.upsample(level)), channels=channels, kernel=3)
        levels.insert(0, level)
    with net.scope("pyramid6"):
        levels.append(net.conv(levels[-1], channels=channels, kernel=3, stride=2))
    return levels


def _head(net: GraphBuilder, level: Tensor) -> Tensor:
    """Return boxes and classes of one level, ``(18, H, W)``."""
    branches = [net.conv(level, channels=net.scaled(channels), kernel=3) for channels in CONTEXT_CHANNELS]
    x = net.relu(net.concat(branches))
    x = net.relu(net.conv(x, channels=net.scaled(PYRAMID_CHANNELS), kernel=3))
    outputs = (BOX_CHANNELS, CLASS_CHANNELS)
    return net.concat([net.rescale(net.conv(x, channels=channels, kernel=3)) for channels in outputs])
