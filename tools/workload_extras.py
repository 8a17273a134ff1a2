"""Layers that the benchmark networks lack: kernels that none of theirs calls would have no predictor.

Shapes are those of segmentation, super-resolution and transformer models, and of depthwise convolutions with
larger windows.
"""

from codl.catalog.layers import Layer
from codl.ir.graph import Shape
from codl.ir.ops import (
    Activation,
    ActivationKind,
    Affine,
    Attention,
    Binary,
    BinaryKind,
    Conv2d,
    ConvTranspose2d,
    Embedding,
    Epilogue,
    LayerNorm,
    MatMul,
    Pad,
    PadMode,
    ReduceMean,
    Slice,
    Softmax,
    Transpose,
    Unary,
)

_IMAGES: tuple[Shape, ...] = (
    (1, 16, 112, 112),
    (1, 24, 56, 56),
    (1, 64, 56, 56),
    (1, 96, 28, 28),
    (1, 256, 28, 28),
    (1, 3, 224, 224),
    (1, 512, 14, 14),
    (1, 32, 160, 160),
    (1, 1280, 7, 7),
    (4, 64, 28, 28),
)
_SEQUENCES = (
    (1, 64, 128),
    (1, 128, 256),
    (1, 197, 384),
    (1, 128, 768),
    (4, 49, 96),
    (1, 256, 512),
    (2, 77, 512),
    (1, 512, 256),
)
"""[batch, tokens, width]"""
_ROWS = 8192
"""Of a table of embeddings."""
_DECODERS = (
    (1, 512, 7, 256),
    (1, 256, 14, 128),
    (1, 128, 28, 64),
    (1, 64, 56, 32),
    (1, 32, 112, 16),
    (1, 21, 28, 21),
    (1, 64, 64, 3),
    (2, 96, 20, 48),
)
"""[batch, input channels, side, output channels]"""
_DEPTHWISE = (
    (72, 56, 5, 2),
    (96, 56, 7, 1),
    (120, 28, 5, 1),
    (144, 56, 5, 2),
    (192, 28, 7, 1),
    (240, 28, 5, 1),
    (384, 14, 7, 1),
    (480, 14, 5, 1),
    (672, 14, 5, 1),
    (672, 14, 5, 2),
    (768, 7, 7, 1),
    (960, 7, 5, 1),
    (1152, 7, 5, 1),
)
"""[channels, side, rows of the window, stride], as in EfficientNet-B0, MobileNetV3 and ConvNeXt-T"""


def _binaries(shape: Shape) -> list[Layer]:
    """Return what two tensors, or a tensor and its channels, are combined by."""
    scale = (shape[0], shape[1], 1, 1)
    return [
        Layer(op=Binary(kind=BinaryKind.ADD), inputs=(shape, shape), output=shape),
        Layer(op=Binary(kind=BinaryKind.MUL), inputs=(shape, scale), output=shape),
        Layer(
            op=Binary(kind=BinaryKind.PRELU), inputs=(shape, (shape[1], 1, 1)), constants=(1,), output=shape
        ),
        Layer(op=Binary(kind=BinaryKind.DIV), inputs=(shape, ()), constants=(1,), output=shape),
    ]


def _movements(shape: Shape) -> list[Layer]:
    """Return paddings, crops and means of an image."""
    images, channels, height, width = shape
    crop = (images, channels, height - 2, width - 2)
    return [
        *(
            Layer(
                op=Pad(before=(0, 0, 1, 1), mode=mode),
                inputs=(shape,),
                output=(images, channels, height + 2, width + 2),
            )
            for mode in PadMode
        ),
        Layer(op=Slice(begin=(0, 0, 1, 1), step=(1, 1, 1, 1)), inputs=(shape,), output=crop),
        Layer(op=ReduceMean(axes=(2, 3)), inputs=(shape,), output=(images, channels, 1, 1)),
        Layer(op=ReduceMean(axes=(1,)), inputs=(shape,), output=(images, 1, height, width)),
        Layer(op=Softmax(axis=1), inputs=(shape,), output=shape),
        Layer(op=Softmax(axis=3), inputs=(shape,), output=shape),
        Layer(op=Affine(), inputs=(shape, (channels,), (channels,)), constants=(1, 2), output=shape),
        *(
            Layer(
                op=Unary(),
                epilogue=Epilogue(activation=Activation(kind=kind, alpha=1.0)),
                inputs=(shape,),
                output=shape,
            )
            for kind in (ActivationKind.SIGMOID, ActivationKind.HARD_SWISH, ActivationKind.RELU)
        ),
    ]


def _attention(shape: Shape) -> list[Layer]:
    """Return the products and normalisations of a transformer's layer."""
    batch, tokens, width = shape
    heads, depth = 4, width // 4
    split, scores = (batch, heads, tokens, depth), (batch, heads, tokens, tokens)
    size = next(size for size in (64, 32) if width % size == 0)
    mix = Attention(heads=width // size, depth=size, width=size, scale=size**-0.5)
    norm = LayerNorm(axis=2, epsilon=1e-5, has_shift=True)
    return [
        Layer(
            op=MatMul(has_bias=True),
            inputs=(shape, (width, width), (width,)),
            constants=(1, 2),
            output=shape,
        ),
        Layer(
            op=MatMul(has_bias=True),
            inputs=(shape, (width, 4 * width), (4 * width,)),
            constants=(1, 2),
            output=(batch, tokens, 4 * width),
        ),
        Layer(op=MatMul(), inputs=(split, (batch, heads, depth, tokens)), output=scores),
        Layer(op=MatMul(), inputs=(scores, split), output=split),
        Layer(op=MatMul(), inputs=(shape, (batch, width, tokens)), output=(batch, tokens, tokens)),
        Layer(op=Softmax(axis=3), inputs=(scores,), output=scores),
        Layer(op=mix, inputs=(shape,) * 3, output=shape),
        Layer(op=Embedding(), inputs=(shape[:2], (_ROWS, width)), constants=(1,), output=shape),
        Layer(op=norm, inputs=(shape, (width,), (width,)), constants=(1, 2), output=shape),
        Layer(op=Transpose(order=(0, 2, 1)), inputs=(shape,), output=(batch, width, tokens)),
        Layer(op=ReduceMean(axes=(2,)), inputs=(shape,), output=(batch, tokens, 1)),
    ]


def _upsampling(batch: int, inputs: int, side: int, outputs: int) -> list[Layer]:
    """Return transposed convolutions that double an image."""
    output = (batch, outputs, 2 * side, 2 * side)
    image = (batch, inputs, side, side)
    return [
        Layer(
            op=ConvTranspose2d(kernel=(kernel, kernel), stride=(2, 2), pads=(pad,) * 4, has_bias=True),
            inputs=(image, (inputs, outputs, kernel, kernel), (outputs,)),
            constants=(1, 2),
            output=output,
        )
        for kernel, pad in ((2, 0), (4, 1))
    ]


def _depthwise(channels: int, side: int, window: int, stride: int) -> Layer:
    """Return a convolution of each channel by itself."""
    return Layer(
        op=Conv2d(
            kernel=(window, window),
            stride=(stride, stride),
            pads=(window // 2,) * 4,
            groups=channels,
            has_bias=True,
        ),
        inputs=((1, channels, side, side), (channels, 1, window, window), (channels,)),
        constants=(1, 2),
        output=(1, channels, side // stride, side // stride),
    )


EXTRAS: tuple[Layer, ...] = tuple(
    {
        layer.key: layer
        for layers in (
            *map(_binaries, _IMAGES),
            *map(_movements, _IMAGES),
            *map(_attention, _SEQUENCES),
            *(_upsampling(*decoder) for decoder in _DECODERS),
            [_depthwise(*sizes) for sizes in _DEPTHWISE],
        )
        for layer in layers
    }.values()
)
