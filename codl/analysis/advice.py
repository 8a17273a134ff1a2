"""What to do about the gap between a plan and its lower bound, in sentences."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from codl.ir.graph import Graph, Node
from codl.ir.ops import Conv2d
from codl.latency.predictor import Predictor
from codl.plan.text import axis_name
from codl.report.assessment import Assessment
from codl.report.inspection import Inspection, format_us
from codl.report.table import shorten

_WORTH = 0.03
"""A share of the time below which nothing is said."""
_STRAIGHT = 0.9
"""A network whose longest path is a larger share of all layers has no branches to speak of."""


def advise(
    found: Assessment, inspection: Inspection, graph: Graph, predictors: Sequence[Predictor]
) -> Assessment:
    """Return an assessment with advice, the largest gain first."""
    told = [*_list_gap_advice(found), *_list_model_advice(found, inspection, graph, predictors)]
    return replace(found, advice=tuple(text for _, text in sorted(told, key=lambda item: -item[0])))


def _list_gap_advice(found: Assessment) -> Iterator[tuple[float, str]]:
    """Yield gains in us and what brings them."""
    gaps = {gap.name: gap.us for gap in found.gaps}
    exchange = gaps["sharing data"] + gaps["synchronization"]
    layers = sum(layer.loss_us > 0 for layer in found.layers)
    for us, remedy in (
        (
            gaps["slower kernels"],
            f"by other kernels for {layers} layers: run `codl tune --model {shlex.quote(found.model)}`",
        ),
        (exchange, "in sharing and synchronization: allow longer chains (--max-chain), or cut the batch"),
        (gaps["halos computed twice"], f"in halos: shorter chains, or cuts along {axis_name(1, 4)}"),
        (gaps["one waits for the other"], "while one device waits: taller or wider tensors allow finer cuts"),
        (
            gaps["slowed by each other"],
            "in memory that both devices want: keep such operators on one",
        ),
        (gaps.get("not predicted", 0.0), "that nothing predicts: run `codl profile` on a quiet machine"),
    ):
        if us > found.taken_us * _WORTH:
            yield us, f"{format_us(us)} {remedy}"


def _list_model_advice(
    found: Assessment, inspection: Inspection, graph: Graph, predictors: Sequence[Predictor]
) -> Iterator[tuple[float, str]]:
    hosts = [operator for operator in inspection.operators if not operator.parts]
    if hosts:
        kinds = ", ".join(sorted({operator.kind for operator in hosts}))
        yield found.taken_us, f"{len(hosts)} operators run on the host ({kinds}): no kernel computes them"
    predicted, best = inspection.totals.predicted_us, inspection.totals.best_single_us
    if predicted is not None and best is not None and best < predicted * (1 - _WORTH):
        name = inspection.totals.best_single
        yield (
            predicted - best,
            f"all on {name} takes less, {format_us(best)}: --planner single:{name}",
        )
    bound = min(found.bounds, key=lambda bound: bound.sequential_us, default=None)
    if bound is not None and bound.longest_path_us < bound.sequential_us * _STRAIGHT:
        gain = format_us(bound.sequential_us - bound.longest_path_us)
        whole = format_us(bound.sequential_us)
        yield 0.0, f"branches hold {gain} of {whole} on {bound.device}: they could run side by side"
    width = max((predictor.info.vector_width for predictor in predictors), default=1)
    odd = [node.name for node in graph.nodes if _has_odd_channels(node, graph, width)]
    if odd:
        name = shorten(odd[0], 30)
        rest = f"output channels that fill no vectors of {width}: round them up when the model is designed"
        yield 0.0, f"{len(odd)} convolutions ({name}, ...) have {rest}"


def _has_odd_channels(node: Node, graph: Graph, width: int) -> bool:
    return isinstance(node.op, Conv2d) and width > 1 and graph.shape(node.output)[1] % width > 0
