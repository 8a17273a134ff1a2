"""A small picture of rectangles, lines and text, drawn with numpy and written as PNG."""

import base64
import json
import struct
import zlib
from functools import cache

import numpy as np
import numpy.typing as npt

from codl.assets import read_report_asset

Colour = tuple[int, int, int]
Coverage = npt.NDArray[np.float32]
_UNKNOWN = "?"


class Canvas:
    """Pixels to draw on; whatever lies outside is cut off.

    Args:
        width: In pixels.
        height: In pixels.
        colour: Of the empty picture.
    """

    def __init__(self, width: int, height: int, colour: Colour) -> None:
        self.width, self.height = width, height
        self._pixels = np.empty((height, width, 3), np.float32)
        self._pixels[:] = colour

    def fill(self, left: float, top: float, right: float, bottom: float, colour: Colour) -> None:
        """Fill a rectangle; pixels that it covers in part are mixed."""
        columns = _cover(left, right, self.width)
        rows = _cover(top, bottom, self.height)
        if columns is None or rows is None:
            return
        (first, across), (begin, down) = columns, rows
        self._mix(first, begin, down[:, None] * across[None, :], colour)

    def write(self, text: str, left: float, top: float, colour: Colour) -> None:
        """Write a line of text; ``top`` is the top of its letters' box."""
        at = round(left)
        for letter in text:
            shape = _find_letter(letter)
            x, y = max(at, 0), max(round(top), 0)
            seen = shape[: max(self.height - y, 0), x - at : max(self.width - at, 0)]
            if seen.size:
                self._mix(x, y, seen, colour)
            at += shape.shape[1]

    def to_png(self) -> bytes:
        """Return the picture as a PNG file.

        Source:
            PNG specification (W3C, third edition), sections 5 and 11: signature, IHDR, IDAT, IEND.
        """
        pixels = np.clip(np.rint(self._pixels), 0, 255).astype(np.uint8)
        rows = np.concatenate([np.zeros((self.height, 1), np.uint8), pixels.reshape(self.height, -1)], axis=1)
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
        return b"\x89PNG\r\n\x1a\n" + b"".join(_make_chunk(kind, data) for kind, data in chunks)

    def _mix(self, left: int, top: int, coverage: Coverage, colour: Colour) -> None:
        height, width = coverage.shape
        part = self._pixels[top : top + height, left : left + width]
        part += coverage[:, :, None] * (np.array(colour, np.float32) - part)


def measure_text(text: str) -> int:
    """Return the width of a line of text in pixels."""
    return sum(_find_letter(letter).shape[1] for letter in text)


def fit_text(text: str, width: float) -> str:
    """Return a text no wider than this, its end left out where it has to be; empty where nothing fits."""
    if measure_text(text) <= width:
        return text
    while text and measure_text(text + "…") > width:
        text = text[:-1]
    return text + "…" if text else ""


def _cover(low: float, high: float, length: int) -> tuple[int, Coverage] | None:
    """Return the first pixel that an interval touches, and how much of each it covers."""
    low, high = max(low, 0.0), min(high, float(length))
    if high <= low:
        return None
    first, last = int(low), int(np.ceil(high))
    edges = np.arange(first, last, dtype=np.float32)
    return first, np.minimum(edges + 1, high) - np.maximum(edges, low)


def _make_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _find_letter(letter: str) -> Coverage:
    letters = _read_letters()
    return letters.get(letter, letters[_UNKNOWN])


@cache
def _read_letters() -> dict[str, Coverage]:
    told = json.loads(read_report_asset("letters.json"))
    pixels = zlib.decompress(base64.b64decode("".join(told["pixels"])))
    sheet = np.frombuffer(pixels, np.uint8).reshape(told["height"], -1)
    ends = np.cumsum(told["widths"]).tolist()
    return {
        letter: (sheet[:, end - width : end] / 255).astype(np.float32)
        for letter, width, end in zip(told["letters"], told["widths"], ends, strict=True)
    }
