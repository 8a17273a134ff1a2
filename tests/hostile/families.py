"""The campaign's cases by name, such as `hostile-1-17`: family, seed, number."""

import numpy as np

from tests.hostile.case import FAMILIES, Case
from tests.hostile.damaged import make_damaged
from tests.hostile.lies import LIES
from tests.hostile.odd import make_odd
from tests.hostile.traps import TRAPS
from tests.hostile.valid import draw_model, draw_sketch, find_windows, make_valid

SHARES = {"valid": 0.35, "odd": 0.2, "hostile": 0.25, "damaged": 0.2}
"""How many of all cases are of each family."""


def name_cases(count: int, *, seed: int) -> list[str]:
    """Return the names of the cases of a campaign; those of a shorter one come first."""
    made = dict.fromkeys(FAMILIES, 0)
    names = []
    for index in range(count):
        family = max(FAMILIES, key=lambda each: SHARES[each] * (index + 1) - made[each])
        names.append(f"{family}-{seed}-{made[family]}")
        made[family] += 1
    return names


def make_case(name: str) -> Case:
    """Return the case of a name."""
    family, seed, number = name.split("-")
    rng = np.random.default_rng([FAMILIES.index(family), int(seed), int(number)])
    match family:
        case "valid":
            return make_valid(name, rng)
        case "odd":
            return make_odd(name, rng)
        case "damaged":
            return make_damaged(name, rng)
        case _:
            return make_hostile(name, rng, int(number))


def make_hostile(name: str, rng: np.random.Generator, number: int) -> Case:
    """Return a model built by hand, or a valid one with one to three lies."""
    if number < len(TRAPS):
        what = list(TRAPS)[number]
        made = TRAPS[what]()
        if isinstance(made, bytes):
            return Case(name=name, what=what, content=made, feeds={"x": np.ones(2, np.float32)})
        model, files = made
        feeds = {value.name: _ones(value) for value in model.graph.input}
        content = model.SerializeToString()
        return Case(name=name, what=what, content=content, feeds=feeds, files=files, is_file=bool(files))
    sketch = draw_sketch(rng, most=6)
    model, files = draw_model(sketch)
    lies = [LIES[int(i)] for i in rng.permutation(len(LIES))[: int(rng.choice([1, 1, 2, 3]))]]
    for lie in lies:
        lie(model, sketch)
    what = f"{', '.join(lie.__name__ for lie in lies)}: {', '.join(n.op_type for n in sketch.nodes)}"
    return Case(
        name=name,
        what=f"opset {sketch.opset}, {what}",
        content=model.SerializeToString(),
        feeds=sketch.feeds,
        files=files,
        is_file=bool(files),
        is_pair=sketch.flip(0.1),
        spreads_nan=any(find_windows(model)),
    )


def _ones(value: object) -> object:
    dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]  # type: ignore[attr-defined]
    return np.ones([n if 0 <= n <= 64 else 4 for n in dims], np.float32)
