"""The tape of a walk: where barriers come, how steps share groups and scratch memory, what words say."""

from dataclasses import replace

import numpy as np
import pytest

from codl.catalog.groups import GROUP
from codl.catalog.spec import LaunchBatch, plain_arg
from codl.catalog.walking import HEAD_WORDS, WORDS
from codl.devices.memory import place_in
from codl.devices.tape import Operand, Tape
from codl.ir.graph import Shape
from codl.ir.regions import Region

SHAPE: Shape = (1, 8, 4, 4)


def make_batch(names: tuple[str, ...], *, places: int = 1, scratch: int = 0) -> LaunchBatch:
    """Return a launch of tensors of one shape, the output first."""
    one = np.ones(1, np.int64)
    return LaunchBatch(
        entry="sum_lanes__buffer",
        tensors=tuple(plain_arg(name, SHAPE) for name in names),
        scratch=scratch * one if scratch else None,
        global_size=np.array([[places * GROUP, 1, 1]]),
        local_size=(GROUP, 1, 1),
        scalars={"length": 7 * one, "scale": np.full(1, 0.5, np.float32)},
        units={},
        read_bytes=one,
        written_bytes=one,
        flops=one,
    )


def operand(base: int, *, buffer: int = 0, frame: Shape = SHAPE, channel: int = 0) -> Operand:
    """Return a tensor that begins somewhere in a buffer, or at a channel of a wider frame."""
    region = Region(begin=(0, channel, 0, 0), end=(1, channel + SHAPE[1], 4, 4))
    storage = place_in(region, None, base=base, frame=Region.whole(frame))
    return Operand(storage=storage, buffer=buffer)


def barriers(tape: Tape) -> list[int]:
    """Return which steps a barrier comes before."""
    return [int(row[1]) for row in tape.words.reshape(-1, WORDS)]


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        pytest.param((operand(128), operand(0)), 1, id="reads-what-was-written"),
        pytest.param((operand(0), operand(512)), 1, id="writes-it-again"),
        pytest.param((operand(256), operand(384)), 1, id="writes-what-was-read"),
        pytest.param((operand(384), operand(256)), 0, id="reads-the-same"),
        pytest.param((operand(0, buffer=1), operand(512)), 0, id="another-buffer"),
    ],
)
def test_barriers_come_between_steps_that_need_each_other(
    operands: tuple[Operand, Operand], expected: int
) -> None:
    tape = Tape(4)
    batch = make_batch(("y", "x"))
    tape.add(1, batch, (operand(0), operand(256)), ())
    tape.add(1, batch, operands, ())
    assert barriers(tape) == [0, expected]


@pytest.mark.parametrize(("channel", "expected"), [(8, 0), (4, 1)], ids=["apart", "overlapping"])
def test_channels_of_one_block_are_told_apart(channel: int, expected: int) -> None:
    tape, frame = Tape(4), (1, 16, 4, 4)
    batch = make_batch(("y", "x"))
    tape.add(1, batch, (operand(0, frame=frame), operand(1024)), ())
    tape.add(1, batch, (operand(0, frame=frame, channel=channel), operand(1024)), ())
    assert barriers(tape) == [0, expected]


def test_steps_without_a_barrier_share_groups_and_scratch() -> None:
    tape = Tape(4)
    for place in (0, 128, 0):
        tape.add(1, make_batch(("y", "x"), places=3, scratch=10), (operand(place), operand(1024)), ())
    rows = tape.words.reshape(-1, WORDS)
    assert rows[:, 1].tolist() == [0, 0, 1]
    assert rows[:, 2].tolist() == [0, 3, 0]
    assert rows[:, HEAD_WORDS + 12].tolist() == [0, 12, 0]
    assert tape.scratch_floats == 24


def test_launches_that_hand_scratch_on_keep_it() -> None:
    tape = Tape(4)
    for number in range(3):
        batch = replace(make_batch(("y", "x"), scratch=16), keeps_scratch=number > 0)
        tape.add(1, batch, (operand(0), operand(1024)), ())
    for place in (128, 128):
        tape.add(1, make_batch(("y", "x"), scratch=8), (operand(place), operand(1024)), ())
    rows = tape.words.reshape(-1, WORDS)
    assert rows[:, 1].tolist() == [0, 0, 1, 0, 1]
    assert rows[:, HEAD_WORDS + 12].tolist() == [0, 16, 0, 16, 0]
    assert tape.scratch_floats == 24


def test_words_are_the_arguments_of_the_kernel_alone() -> None:
    tape = Tape(1)
    tape.add(5, make_batch(("y", "x")), (operand(128), operand(256, buffer=2)), (640,))
    (row,) = tape.words.reshape(-1, WORDS)
    tensors = [0, 128, 128, 32, 8, 1, 2, 256, 128, 32, 8, 1]
    assert row[: HEAD_WORDS + 14].tolist() == [5, 0, 0, 0, *tensors, 640, 7]
    assert row[HEAD_WORDS + 14 : HEAD_WORDS + 15].view(np.float32).tolist() == [0.5]


def test_branches_are_walked_side_by_side() -> None:
    tape, batch = Tape(4), make_batch(("y", "x"))
    for case, (written, read) in enumerate([(128, 0), (256, 128), (384, 0), (512, 384)], start=1):
        tape.add(case, batch, (operand(written), operand(read)), ())
    rows = tape.words.reshape(-1, WORDS)
    assert rows[:, 0].tolist() == [1, 3, 2, 4]
    assert rows[:, 1].tolist() == [0, 0, 1, 0]
