"""Inspections of small plans, priced with profiles made by hand: no device is needed."""

import zlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from codl.analysis.measured import add_measurement
from codl.ir.graph import Graph, Node, Tensor
from codl.ir.ops import Conv2d, Epilogue, ResidualOrder
from codl.partitioner.even import plan_even
from codl.plan.sharing import Sharing
from codl.plan.steps import Plan
from codl.report.inspection import Inspection
from codl.session.inspection import inspect_plan
from tests.arrangements import arrange_alike
from tests.graphs import residual_block
from tests.simulator.profiles import make_predictors

NAMES = ("left", "right")
PREDICTORS = make_predictors(slower=2.0, slowdown=1.1)
HOSTILE = (
    "</script><script>window.pwned=1</script>",
    '"><img src=x onerror="window.pwned=1">',
    "{{script}} <!-- \u2028 'x' `${window.pwned=1}` &lt;",
    "]]>\x00\x1b[31m\ud800 ＜svg onload=window.pwned=1＞" + "long " * 60,
)


def inspect(graph: Graph, plan: Plan | None = None, *, sharing: Sharing = Sharing.COPIED) -> Inspection:
    """Return the inspection of a plan, of even shares by default, over `left` and the slower `right`."""
    plan = plan or plan_even(graph, devices=NAMES, max_chain_length=3)
    return inspect_plan(plan, graph, PREDICTORS, arrangement=arrange_alike(sharing, len(plan.devices)))[1]


def measure(inspection: Inspection, *, factor: float = 1.25) -> Inspection:
    """Return an inspection of which everything was measured to take longer by a factor."""
    run = [
        replace(span, start_us=span.start_us * factor, duration_us=span.duration_us * factor)
        for span in inspection.timeline
    ]
    assert inspection.totals.predicted_us is not None
    return add_measurement(inspection, [run], [inspection.totals.predicted_us * factor])


def hostile_graph() -> Graph:
    """Return a residual block whose operators have names that try to break out of a page."""
    graph = residual_block(height=64)
    nodes = tuple(replace(node, name=name) for node, name in zip(graph.nodes, HOSTILE, strict=True))
    return replace(graph, nodes=nodes, name=HOSTILE[0])


def long_graph(count: int) -> Graph:
    """Return so many convolutions, every third one adding what an earlier one computed."""
    shape = (1, 8, 24, 24)
    nodes = []
    for index in range(count):
        is_joint = index % 3 == 2
        inputs = (f"t{index}", "w", f"t{index - 1}") if is_joint else (f"t{index}", "w")
        nodes.append(
            Node(
                name=f"block{index // 3}/conv{index}",
                op=Conv2d(kernel=(3, 3), pads=(1, 1, 1, 1)),
                inputs=inputs,
                output=f"t{index + 1}",
                epilogue=Epilogue(residual=ResidualOrder.BEFORE if is_joint else ResidualOrder.NONE),
            )
        )
    tensors = {f"t{index}": Tensor(name=f"t{index}", shape=shape) for index in range(count + 1)}
    tensors["w"] = Tensor(name="w", shape=(8, 8, 3, 3))
    return Graph(
        name="long",
        nodes=tuple(nodes),
        inputs=("t0",),
        outputs=(f"t{count}",),
        tensors=tensors,
        constants={"w": np.ones((8, 8, 3, 3), np.float32)},
    )


def count_colours(png: bytes) -> int:
    """Return how many different rows of bytes a PNG file holds: one or two where it is blank."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    place, parts, width = 8, [], 0
    while place < len(png):
        size, kind = int.from_bytes(png[place : place + 4]), png[place + 4 : place + 8]
        data = png[place + 8 : place + 8 + size]
        assert zlib.crc32(kind + data) == int.from_bytes(png[place + 8 + size : place + 12 + size])
        if kind == b"IHDR":
            width = int.from_bytes(data[:4]) * {2: 3, 6: 4}[data[9]] + 1
        if kind == b"IDAT":
            parts.append(data)
        place += 12 + size
    pixels = zlib.decompress(b"".join(parts))
    return len({pixels[start:end] for start, end in pairwise(range(0, len(pixels) + 1, width))})


def operator_names(inspection: Inspection) -> Sequence[str]:
    """Return the operators of an inspection by name."""
    return [operator.name for operator in inspection.operators]
