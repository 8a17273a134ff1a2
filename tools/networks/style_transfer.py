"""Fast style transfer: an image in, an image of the same size out.

Source:
    Johnson et al., Perceptual Losses, 2016, supplementary table 1, with instance normalization;
    640 x 480 as CoDL was measured on. The two transposed convolutions are nearest-neighbour
    upsampling and a 3 x 3 convolution, and the final tanh is left off.
"""

from tools.networks.graph import GraphBuilder, Tensor
from tools.networks.weights import Network

DOWN = ((32, 9, 1), (64, 3, 2), (128, 3, 2))
"""Channels, kernel and stride of the convolutions that shrink the image."""

RESIDUAL_BLOCKS = 5
RESIDUAL_CHANNELS = 128
UP = (64, 32)
COLOURS = 3


def fast_style_transfer(*, size: int = 480, width: float = 1.0) -> Network:
    """Return the network; ``size`` is the image's height, the image is 4 / 3 times as wide."""
    net = GraphBuilder(width=width)
    x = net.image(height=size, width=round(size / 3) * 4, multiple=4)
    with net.scope("down"):
        for channels, kernel, stride in DOWN:
            x = net.relu(_layer(net, x, channels=channels, kernel=kernel, stride=stride))
    for block in range(RESIDUAL_BLOCKS):
        with net.scope(f"residual{block + 1}"):
            inner = net.relu(_layer(net, x, channels=RESIDUAL_CHANNELS))
            x = net.add(x, other=_layer(net, inner, channels=RESIDUAL_CHANNELS))
    with net.scope("up"):
        for channels in UP:
            x = net.relu(_layer(net, net.upsample(x), channels=channels))
        image = net.rescale(net.conv(x, channels=COLOURS, kernel=9))
    return net.finish(image, name="fast_style_transfer")


def _layer(net: GraphBuilder, x: Tensor, *, channels: int, kernel: int = 3, stride: int = 1) -> Tensor:
    """Add a convolution and its instance normalization."""
    return net.instance_norm(net.conv(x, channels=net.scaled(channels), kernel=kernel, stride=stride))
