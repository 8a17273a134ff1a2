"""Mutations that keep bytes readable: of JSON values, and of models."""

import json
import random
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from tests.hostile.lies import LIES
from tests.hostile.sketch import Sketch

_VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2**31,
        2**63,
        -(2**63),
        10**400,
        1.5,
        -0.0,
        1e308,
        "",
        "x" * 100,
        "intel-cpu",
    ),
    *([], {}, [0], [[]], {"": 0}, [None, "a"], "dict", "Graph", {"Graph": {}}, {"dict": [[[], 0]]}),
)


def mutate_json(data: bytes, dice: random.Random) -> bytes:
    """Return JSON text with one to three of its values changed; other text as it is."""
    begin = 0 if data[:1] in b"[{" else 1
    head, body = data[:begin], data[begin:]
    parts = body.split(b"\n---\n")
    index = dice.randrange(len(parts))
    try:
        value = json.loads(parts[index])
    except (ValueError, RecursionError):
        return data
    for _ in range(dice.randint(1, 3)):
        value = _mutate(value, dice, depth=dice.randint(1, 7))
    parts[index] = json.dumps(value).encode()
    return head + b"\n---\n".join(parts)


def _mutate(value: Any, dice: random.Random, *, depth: int) -> Any:
    """Return a value with a value inside it changed, removed, doubled or renamed."""
    if not isinstance(value, dict | list) or not value or depth == 0:
        return dice.choice(_VALUES)
    if isinstance(value, list):
        index, found = dice.randrange(len(value)), list(value)
        match dice.randrange(8):
            case 0:
                del found[index]
            case 1:
                found.insert(index, found[index])
            case _:
                found[index] = _mutate(found[index], dice, depth=depth - 1)
        return found
    key = dice.choice(list(value))
    match dice.randrange(10):
        case 0:
            return {name: item for name, item in value.items() if name != key}
        case 1:
            return {
                (dice.choice(["", "x", "nodes"]) if name == key else name): i for name, i in value.items()
            }
        case _:
            return {**value, key: _mutate(value[key], dice, depth=depth - 1)}


def mutate_model(data: bytes, dice: random.Random) -> bytes:
    """Return a model with a lie in it; bytes that are none as they are."""
    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError:
        return data
    rng = np.random.default_rng(dice.randrange(2**32))
    sketch = Sketch(rng=rng, opset=17)
    try:
        dice.choice(LIES)(model, sketch)
    except (ValueError, IndexError, TypeError, OverflowError):  # there is nothing to lie about
        return data
    return bytes(model.SerializeToString())
