"""What is known of all candidates of all stretches before any way is followed: each is looked up by number.

A state tells of each tensor that is read on by some facts, one column a tensor; a candidate changes them.
"""

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from codl.partitioner.crossings import Crossings
from codl.partitioner.ledger import Ledger
from codl.partitioner.options import Options
from codl.simulator.arrays import Flags, Floats, Ints

ROW, START, UNSEEN, MARK, SENT = range(5)
"""Facts about a tensor: the ledger's row of how it is divided, what that adds to a pair's place in
`Crossings`, the set of devices that the host has not waited for since then, the division's mark; from the
last on, by device, what its part that was sent adds to a place."""


class Known:
    """All that may be done, and what becomes of tensors then.

    Args:
        options: In the order of the ledger's candidates.
        ledger: Complete.
        crossings: What is sent then.
        sets: [set, device] Whether the set with a number has a device, as in `TransferCosts`.
        live: [position, column] Position of the last reader of what is told of there, as in `Seats`.
    """

    def __init__(
        self, options: Sequence[Options], ledger: Ledger, crossings: Crossings, sets: Flags, live: Ints
    ) -> None:
        self.crossings, self.divisions, self._options = crossings, ledger.divisions, options
        everyone, devices = len(sets) - 1, sets.shape[1]
        busy_us = np.concatenate([np.zeros((0, devices)), *(one.busy_us for one in options)])
        self.load_us: Floats = busy_us.T[:, :, None]
        """[device, candidate, 1] What devices compute."""
        self.late_us: Floats = np.where(self.load_us > 0, self.load_us, -np.inf)
        """As `load_us`; no time passes for those that have nothing to do."""
        self.numbers: Ints = np.arange(len(busy_us))[:, None]
        """[candidate, 1]"""
        nothing = np.zeros(0, np.int64)
        marks, lasts = (
            np.concatenate([nothing, *known])
            for known in ([one.marks for one in options], [one.lasts for one in options])
        )
        self.marks: Ints = marks[:, None]
        """[candidate, 1] The sum of those of its divisions."""
        heads = np.repeat(
            np.array([one.first for one in options], np.int64), [len(one.lasts) for one in options]
        )
        self.is_read_on: Ints = np.zeros((len(lasts), 1 + live.shape[1]), np.int64)
        """[candidate, column] Whether what was published before is read behind the candidate."""
        self.is_read_on[:, :-1] = live.take(heads, axis=0) > lasts[:, None]
        rows = ledger.changes
        self.changes: Ints = np.zeros((2, len(lasts), 1 + live.shape[1], SENT + devices), np.int64)
        """[2, candidate, column, fact] Which bits of facts about tensors stay, and which are set then."""
        stay, change = self.changes[:, :, :-1]
        self.changes[0, :, -1] = -1
        stay[:] = (rows < 0)[:, :, [0] * SENT + list(range(1, 1 + devices))]
        np.negative(stay, out=stay)
        change[:, :, :SENT] = _list_facts(ledger, crossings, everyone).take(rows[:, :, 0], axis=0)
        sent = np.append(crossings.sent_starts, np.zeros((1, devices), np.int64), axis=0)
        for device in range(devices):
            change[:, :, SENT + device] = sent[:, device].take(rows[:, :, 1 + device])
        self.kept: Ints = np.full((len(sets), 1, SENT + devices), -1)
        """[set, 1, fact] Bits of facts that stay when the host waits for a set of devices."""
        self.kept[:, 0, UNSEEN] = everyone - np.arange(len(sets))
        self.start: Ints = np.zeros((1 + live.shape[1], SENT + devices), np.int64)
        """[column, fact] Before the first unit. The last column is of no tensor: it tells who was met."""
        self.start[:, UNSEEN], self.start[:, SENT:] = everyone, crossings.sent_starts[0]

    def find_done(self, candidate: int) -> tuple[Options, int]:
        """Return which of some options a candidate is, and its place among those."""
        options = self._options[bisect_right(self._options, candidate, key=lambda one: one.start) - 1]
        return options, candidate - options.start


def _list_facts(ledger: Ledger, crossings: Crossings, everyone: int) -> Ints:
    """Return [row, fact] what is told of a division of the ledger, all but what was sent; at -1 nothing.

    Args:
        ledger: Complete.
        crossings: What is sent then.
        everyone: The set of all devices.
    """
    count = len(ledger.marks)
    facts = np.zeros((count + 1, SENT), np.int64)
    facts[:-1, ROW], facts[:-1, START] = np.arange(count), crossings.division_starts
    facts[:-1, UNSEEN], facts[:-1, MARK] = everyone, ledger.marks
    return facts
