"""VGG-16.

Source:
    Simonyan and Zisserman, Very Deep Convolutional Networks, 2014, configuration D.
"""

from tools.networks.graph import GraphBuilder
from tools.networks.weights import Network

STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Channels of the 3 x 3 convolutions of each stage; a 2 x 2 max pooling ends a stage."""

HIDDEN_FEATURES = 4096
CLASSES = 1000


def vgg16(*, size: int = 224, width: float = 1.0) -> Network:
    """Return VGG-16, which ends in logits (the original's softmax and dropout are left off)."""
    net = GraphBuilder(width=width)
    x = net.image(height=size, width=size, multiple=32)
    for index, stage in enumerate(STAGES, start=1):
        with net.scope(f"stage{index}"):
            for channels in stage:
                x = net.relu(net.conv(x, channels=net.scaled(channels), kernel=3))
            x = net.max_pool(x)
    with net.scope("classifier"):
        x = net.flatten(x)
        for _ in range(2):
            x = net.relu(net.gemm(x, features=net.scaled(HIDDEN_FEATURES)))
        logits = net.rescale(net.gemm(x, features=CLASSES))
    return net.finish(logits, name="vgg16")
