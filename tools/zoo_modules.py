"""Networks of the zoo that no library has: U-Nets, 1-D networks, a recogniser of text."""

from itertools import pairwise
from typing import Any

import torch
from torch import nn


def _convolve(inputs: int, outputs: int) -> nn.Sequential:
    """Return two convolutions of 3 x 3 with what follows each."""
    layers: list[nn.Module] = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):  # type: ignore[misc]
    """A U-Net of four resolutions."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        sizes = [3, width, 2 * width, 4 * width, 8 * width]
        self.down = nn.ModuleList(_convolve(*pair) for pair in pairwise(sizes[:4]))
        self.bottom, self.pool = _convolve(sizes[3], sizes[4]), nn.MaxPool2d(2)
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * size, size, 2, 2) for size in sizes[3:0:-1])
        self.merge = nn.ModuleList(_convolve(2 * size, size) for size in sizes[3:0:-1])
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x: Any) -> Any:
        """Return what the network makes of its input."""
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = self.pool(x)
        x = self.bottom(x)
        for grow, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([grow(x), kept.pop()], 1))
        return self.head(x)


def _activate(inputs: int, outputs: int) -> nn.Sequential:
    """Return a normalization, an activation and a convolution."""
    return nn.Sequential(nn.GroupNorm(8, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1))


class _Residual(nn.Module):  # type: ignore[misc]
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(8, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1)
        )
        self.second = nn.Sequential(
            nn.GroupNorm(8, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1)
        )
        self.time = nn.Linear(256, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Any, time: Any) -> Any:
        """Return what the network makes of its input."""
        y = self.first(x) + self.time(time)[:, :, None, None]
        return self.second(y) + self.skip(x)


class _SelfAttention(nn.Module):  # type: ignore[misc]
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm, self.mix = nn.GroupNorm(8, channels), nn.Linear(channels, 3 * channels)
        self.out = nn.Linear(channels, channels)

    def forward(self, x: Any) -> Any:
        """Return what the network makes of its input."""
        n, c, h, w = x.shape
        query, key, value = self.mix(self.norm(x).flatten(2).transpose(1, 2)).chunk(3, -1)
        shares = torch.softmax(query @ key.transpose(1, 2) * c**-0.5, -1)
        return x + self.out(shares @ value).transpose(1, 2).reshape(n, c, h, w)


class DiffusionUNet(nn.Module):  # type: ignore[misc]
    """A denoiser of 32 x 32 latents: residual blocks with an embedding of time, attention at the bottom."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.head, self.time = (
            nn.Conv2d(4, width, 3, padding=1),
            nn.Sequential(nn.Linear(256, 256), nn.SiLU()),
        )
        self.down = nn.ModuleList([_Residual(width, width), _Residual(width, 2 * width)])
        self.shrink = nn.ModuleList(nn.Conv2d(c, c, 3, 2, 1) for c in (width, 2 * width))
        self.bottom = nn.ModuleList([_Residual(2 * width, 4 * width), _Residual(4 * width, 4 * width)])
        self.attention = _SelfAttention(4 * width)
        self.up = nn.ModuleList([_Residual(6 * width, 2 * width), _Residual(3 * width, width)])
        self.tail = _activate(width, 4)

    def forward(self, x: Any, time: Any) -> Any:
        """Return what the network makes of its input."""
        x, time, kept = self.head(x), self.time(time), []
        for block, shrink in zip(self.down, self.shrink, strict=True):
            x = block(x, time)
            kept.append(x)
            x = shrink(x)
        x = self.bottom[1](self.attention(self.bottom[0](x, time)), time)
        for block in self.up:
            x = block(torch.cat([nn.functional.interpolate(x, scale_factor=2.0), kept.pop()], 1), time)
        return self.tail(x)


class Signal(nn.Module):  # type: ignore[misc]
    """A classifier of signals by 1-D convolutions."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        sizes = [1, 64, 64, 128, 128, 256, 256]
        for (inputs, outputs), size in zip(pairwise(sizes), (7, 5, 5, 3, 3, 3), strict=True):
            stride = 2 if inputs != outputs else 1
            layers += [
                nn.Conv1d(inputs, outputs, size, stride, size // 2),
                nn.BatchNorm1d(outputs),
                nn.ReLU(),
            ]
        self.features, self.head = nn.Sequential(*layers), nn.Linear(256, 10)

    def forward(self, x: Any) -> Any:
        """Return what the network makes of its input."""
        return self.head(self.features(x).mean(-1))


class WaveNet(nn.Module):  # type: ignore[misc]
    """Gated dilated 1-D convolutions with skip connections."""

    def __init__(self, width: int = 32, layers: int = 8) -> None:
        super().__init__()
        self.head = nn.Conv1d(1, width, 1)
        self.gates = nn.ModuleList(
            nn.Conv1d(width, 2 * width, 3, padding=2**number, dilation=2**number) for number in range(layers)
        )
        self.mix = nn.ModuleList(nn.Conv1d(width, 2 * width, 1) for _ in range(layers))
        self.tail = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, 1, 1))

    def forward(self, x: Any) -> Any:
        """Return what the network makes of its input."""
        x, skipped = self.head(x), 0.0
        for gate, mix in zip(self.gates, self.mix, strict=True):
            signal, weight = gate(x).chunk(2, 1)
            rest, skip = mix(torch.tanh(signal) * torch.sigmoid(weight)).chunk(2, 1)
            x, skipped = x + rest, skipped + skip
        return self.tail(skipped)


class TextRecogniser(nn.Module):  # type: ignore[misc]
    """Lines of text: separable convolutions, an LSTM in both directions, a distribution for each column."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 3
        for outputs, stride in ((32, (2, 2)), (64, (2, 2)), (96, (2, 1)), (128, (2, 1)), (192, (2, 1))):
            layers += [nn.Conv2d(inputs, outputs, 3, stride, 1), nn.BatchNorm2d(outputs), nn.Hardswish()]
            layers += [nn.Conv2d(outputs, outputs, 3, 1, 1, groups=outputs), nn.Conv2d(outputs, outputs, 1)]
            inputs = outputs
        self.features = nn.Sequential(*layers)
        self.columns = nn.LSTM(192, 96, bidirectional=True, batch_first=True)
        self.head = nn.Linear(192, 500)

    def forward(self, x: Any) -> Any:
        """Return what the network makes of its input."""
        columns, _ = self.columns(self.features(x).mean(2).transpose(1, 2))
        return self.head(columns).softmax(-1)


class SuperResolution(nn.Module):  # type: ignore[misc]
    """ESPCN: convolutions at the low resolution, then a shuffle of pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 32, 3, padding=1), nn.Tanh(),
            nn.Conv2d(32, 9, 3, padding=1), nn.PixelShuffle(3),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        """Return what the network makes of its input."""
        return self.layers(x)


MODULES = {
    "unet": lambda: (UNet(), (torch.randn(1, 3, 192, 192),)),
    "diffusion_unet": lambda: (DiffusionUNet(), (torch.randn(1, 4, 32, 32), torch.randn(1, 256))),
    "signal_1d": lambda: (Signal(), (torch.randn(1, 1, 8000),)),
    "wavenet": lambda: (WaveNet(), (torch.randn(1, 1, 4000),)),
    "text_recogniser": lambda: (TextRecogniser(), (torch.randn(1, 3, 48, 320),)),
    "espcn": lambda: (SuperResolution(), (torch.randn(1, 1, 128, 128),)),
    "video_3d": lambda: (_make_video(), (torch.randn(1, 3, 8, 112, 112),)),
}
"""By name, what makes a module and its inputs."""


def _make_video() -> Any:
    from torchvision.models.video import r3d_18

    return r3d_18(weights=None)
