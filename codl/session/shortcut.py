"""Runs like the last one, which ONNX Runtime answered: what was checked and looked up then holds again."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from codl.session.feeds import Feeds
from codl.session.tiers import Tier


class Shortcut:
    """What feeds must be to need no further look.

    Args:
        tier: Who answers feeds of these shapes.
        feeds: Sound ones.
    """

    def __init__(self, tier: Tier, feeds: Feeds) -> None:
        self.tier = tier
        self._arrays = [
            (name, value.shape, value.dtype)
            for name, value in feeds.inputs.items()
            if isinstance(value, np.ndarray) and value.dtype.isnative
        ]
        self._count = len(feeds.inputs) + len(feeds.initializers)

    def fits(self, feeds: Mapping[str, Any]) -> bool:
        """Return whether feeds are arrays of the same names, shapes and types."""
        if type(feeds) is not dict or not len(feeds) == self._count == len(self._arrays):
            return False
        for name, shape, dtype in self._arrays:
            value = feeds.get(name)
            if type(value) is not np.ndarray or value.shape != shape or value.dtype != dtype:
                return False
        return True
