"""ResNet-50 v1.5: the stride of a downsampling block sits in its 3 x 3 convolution.

Source:
    He et al., Deep Residual Learning, 2015, table 1; torchvision's resnet50 for the stride.
"""

from tools.networks.graph import GraphBuilder, Tensor
from tools.networks.weights import Network

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Bottleneck channels, blocks, and stride of the first block of each stage."""

EXPANSION = 4
BRANCH_GAIN = 0.25
"""Factor of the last normalization of each residual branch.

Practice starts training with 0, and trained networks stay small. At 1 a random network of fifty layers is
chaotic: it makes the rounding of float32 grow until two correct programs differ by more than 1e-4.

Source:
    Goyal et al., Accurate, Large Minibatch SGD, 2017, section 5.1.
"""
CLASSES = 1000


def resnet50(*, size: int = 224, width: float = 1.0) -> Network:
    """Return ResNet-50 v1.5, which ends in logits, without softmax, like torchvision's."""
    net = GraphBuilder(width=width)
    x = net.image(height=size, width=size, multiple=1)
    with net.scope("stem"):
        x = net.relu(norm_conv(net, x, channels=net.scaled(64), kernel=7, stride=2))
        x = net.max_pool(x, kernel=3, stride=2, pad=1)
    for index, (channels, blocks, stride) in enumerate(STAGES, start=1):
        for block in range(blocks):
            with net.scope(f"stage{index}/block{block + 1}"):
                x = bottleneck(net, x, channels=net.scaled(channels), stride=stride if block == 0 else 1)
    with net.scope("classifier"):
        x = net.flatten(net.global_average_pool(x))
        logits = net.rescale(net.gemm(x, features=CLASSES))
    return net.finish(logits, name="resnet50")


def norm_conv(
    net: GraphBuilder, x: Tensor, *, channels: int, kernel: int, stride: int = 1, gain: float = 1.0
) -> Tensor:
    """Add a convolution without bias and its batch normalization."""
    x = net.conv(x, channels=channels, kernel=kernel, stride=stride, has_bias=False)
    return net.batch_norm(x, gain=gain)


def bottleneck(net: GraphBuilder, x: Tensor, *, channels: int, stride: int) -> Tensor:
    """Add 1 x 1, 3 x 3 and 1 x 1 convolutions around a shortcut, projected where shapes differ."""
    shortcut = x
    if stride != 1 or x.channels != EXPANSION * channels:
        shortcut = norm_conv(net, x, channels=EXPANSION * channels, kernel=1, stride=stride)
    x = net.relu(norm_conv(net, x, channels=channels, kernel=1))
    x = net.relu(norm_conv(net, x, channels=channels, kernel=3, stride=stride))
    x = norm_conv(net, x, channels=EXPANSION * channels, kernel=1, gain=BRANCH_GAIN)
    return net.relu(net.add(x, other=shortcut))
