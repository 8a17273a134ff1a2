"""Which is faster for a session's runs: its plan, or all on ONNX Runtime; found out in its first runs."""

from statistics import median

_BLOCK = 4
"""Runs in a row on one side; the first is not counted: threads of the other side still wait for work."""
_LEAST_BLOCKS, _MOST_BLOCKS = 4, 10
"""Blocks of both sides together until it is decided, where one is clearly faster and where they are close."""
_CLEAR = 1.1
"""How many times longer the slower side takes where it is clear."""
_TIE = 1.02
"""How many times longer the plan may take and still be chosen: it leaves more memory and cores."""


class Trial:
    """Runs of both sides in turns, and what they took."""

    def __init__(self) -> None:
        self._runs = 0
        self.taken: dict[bool, list[float]] = {False: [], True: []}
        """Seconds by side: whether it is ONNX Runtime."""

    @property
    def is_host_next(self) -> bool:
        """Whether ONNX Runtime does the next run."""
        return self._runs // _BLOCK % 2 == 1

    def note(self, seconds: float) -> None:
        """Note what the next run took."""
        if self._runs % _BLOCK:
            self.taken[self.is_host_next].append(seconds)
        self._runs += 1

    @property
    def ratio(self) -> float:
        """What ONNX Runtime takes, over what the plan takes."""
        return median(self.taken[True]) / median(self.taken[False])

    def find_winner(self) -> bool | None:
        """Return whether ONNX Runtime is faster, or None as long as that is not known."""
        blocks, rest = divmod(self._runs, _BLOCK)
        if rest or blocks % 2 or blocks < _LEAST_BLOCKS:
            return None
        is_clear = not 1 / _CLEAR < self.ratio < _CLEAR
        return self.ratio * _TIE < 1 if is_clear or blocks >= _MOST_BLOCKS else None
