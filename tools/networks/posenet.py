"""Hand pose network: a VGG front and three stages, each reading the last one's heat maps.

Source:
    Wei et al., Convolutional Pose Machines, 2016; the layer sizes are those that CoDL was
    measured on.
"""

from tools.networks.graph import GraphBuilder, Tensor
from tools.networks.weights import Network

FRONT = ((64, 64), (128, 128), (256, 256, 256, 256))
"""Channels of the 3 x 3 convolutions of each part; a 2 x 2 max pooling ends a part."""

FEATURES = (512, 512, 256, 256, 256, 256, 128)
"""Channels of the 3 x 3 convolutions that make the features which all stages read."""

FIRST_STAGE_CHANNELS = 512
STAGE_CHANNELS = 128
REFINEMENTS = 2
KEYPOINTS = 21


def posenet(*, size: int = 256, width: float = 1.0) -> Network:
    """Return the network, which ends in heat maps ``(21, size / 8, size / 8)``."""
    net = GraphBuilder(width=width)
    x = net.image(height=size, width=size, multiple=8)
    for index, part in enumerate(FRONT, start=1):
        with net.scope(f"front{index}"):
            for channels in part:
                x = _layer(net, x, channels=channels, kernel=3)
            x = net.max_pool(x)
    with net.scope("features"):
        for channels in FEATURES:
            x = _layer(net, x, channels=channels, kernel=3)
    features = x
    with net.scope("stage1"):
        x = _layer(net, features, channels=FIRST_STAGE_CHANNELS, kernel=1)
        maps = net.rescale(net.conv(x, channels=KEYPOINTS, kernel=1))
    for index in range(REFINEMENTS):
        with net.scope(f"stage{index + 2}"):
            maps = _refine(net, maps, features=features)
    return net.finish(maps, name="posenet")


def _refine(net: GraphBuilder, maps: Tensor, *, features: Tensor) -> Tensor:
    """Add one stage: heat maps and features in, better heat maps out."""
    x = net.concat([maps, features])
    for kernel in (7, 7, 7, 7, 7, 1):
        x = _layer(net, x, channels=STAGE_CHANNELS, kernel=kernel)
    return net.rescale(net.conv(x, channels=KEYPOINTS, kernel=1))


def _layer(net: GraphBuilder, x: Tensor, *, channels: int, kernel: int) -> Tensor:
    return net.relu(net.conv(x, channels=net.scaled(channels), kernel=kernel))
