"""Bytes of valid models, damaged: flipped, cut, filled in, spliced with another model's."""

import random

import numpy as np

from tests.hostile.case import Case
from tests.hostile.valid import choose_outputs, draw_sketch


def damage(data: bytes, dice: random.Random) -> bytes:
    """Return the bytes with one to three places replaced, flipped, cut out or filled in."""
    damaged = bytearray(data)
    for _ in range(dice.randint(1, 3)):
        place = dice.randrange(len(damaged))
        match dice.randrange(4):
            case 0:
                damaged[place] = dice.randrange(256)
            case 1:
                damaged[place] ^= 1 << dice.randrange(8)
            case 2:
                del damaged[place : place + dice.randint(1, 4)]
            case _:
                damaged[place:place] = dice.randbytes(dice.randint(1, 3))
    return bytes(damaged)


def make_damaged(name: str, rng: np.random.Generator) -> Case:
    """Return a model of damaged bytes."""
    sketch = draw_sketch(rng, most=5)
    data = sketch.finish(choose_outputs(sketch)).SerializeToString()
    dice = random.Random(int(rng.integers(2**32)))
    match dice.randrange(8):
        case 0:
            how, data = "cut short", data[: dice.randrange(len(data))]
        case 1:
            other = draw_sketch(rng, most=4)
            others = other.finish(choose_outputs(other)).SerializeToString()
            data = data[: dice.randrange(len(data))] + others[dice.randrange(len(others)) :]
            how = "spliced"
        case 2:
            other = draw_sketch(rng, most=4)
            data += other.finish(choose_outputs(other)).SerializeToString()
            how = "merged"
        case _:
            how, data = "flipped", damage(data, dice)
    ops = ", ".join(node.op_type for node in sketch.nodes)
    return Case(name=name, what=f"{how}: {ops}", content=data, feeds=sketch.feeds)
