"""The lower bound of a network on its devices, and the gaps between it and a plan.

Source:
    Benanza (IPDPS 2020), sections 3 and 4: unique layers, the best kernel of each, the longest path; gaps by
    cause.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codl.analysis.advice import advise
from codl.catalog.shape_key import find_class
from codl.catalog.spec import Selection
from codl.catalog.table import IMPLEMENTATIONS
from codl.errors import ProfileError
from codl.ir.boxes import Boxes
from codl.ir.graph import Graph, Node
from codl.ir.ops import HostCall
from codl.latency.predictor import Predictor
from codl.report.assessment import Assessment, Bound, Gap, KernelChoice, Layer
from codl.report.inspection import Inspection

_GAPS = {
    "repeated": "halos computed twice",
    "disturbance": "slowed by each other",
    "imbalance": "one waits for the other",
    "sharing": "sharing data",
    "waiting": "synchronization",
}


def assess(inspection: Inspection, graph: Graph, predictors: Sequence[Predictor]) -> Assessment:
    """Return how far a plan is from what its devices could do.

    Args:
        inspection: The plan with its price.
        graph: The network.
        predictors: By device.

    Raises:
        ProfileError: The plan has no price.
    """
    predicted = inspection.totals.predicted_us
    if predicted is None or inspection.totals.parts is None:
        raise ProfileError(
            f"{inspection.model}: got no predictions ({'; '.join(inspection.notes) or 'no profiles'}), "
            "expected profiles of all devices; run `codl profile`"
        )
    layers = list_layers(graph, predictors)
    tables = [_Table.of(layers, device) for device in range(len(predictors))]
    measured = inspection.totals.measured_us
    taken = predicted if measured is None else measured
    bound = _add_speeds([table.best_us for table in tables])
    chosen = _add_speeds([table.us for table in tables])
    gaps = [
        Gap(name="slower kernels", us=chosen - bound),
        Gap(name="cuts and whole operators", us=inspection.totals.parts["compute"] - chosen),
        *(Gap(name=words, us=inspection.totals.parts[name]) for name, words in _GAPS.items()),
        Gap(name="steps side by side", us=inspection.totals.parts["overlap"]),
        Gap(name="other", us=inspection.totals.parts["other"]),
    ]
    if measured is not None:
        gaps.append(Gap(name="not predicted", us=measured - predicted))
    found = Assessment(
        model=inspection.model,
        planner=inspection.planner,
        devices=inspection.devices,
        operators=len(graph.nodes),
        bounds=tuple(
            Bound(
                device=predictor.info.name,
                sequential_us=sum(table.best_us.values()),
                longest_path_us=_find_longest_path(graph, table.best_us),
            )
            for predictor, table in zip(predictors, tables, strict=True)
        ),
        bound_us=bound,
        taken_us=taken,
        is_measured=measured is not None,
        gaps=tuple(gaps),
        layers=tuple(sorted(layers, key=lambda layer: -layer.loss_us)),
        advice=(),
    )
    return advise(found, inspection, graph, predictors)


def list_layers(graph: Graph, predictors: Sequence[Predictor]) -> list[Layer]:
    """Return the layers of a network that devices compute, operators that are alike together."""
    alike: dict[object, list[Node]] = {}
    for node in graph.nodes:
        if not isinstance(node.op, HostCall):
            alike.setdefault(find_class(node, graph), []).append(node)
    return [
        Layer(
            operators=tuple(node.name for node in nodes),
            kind=nodes[0].kind,
            shape=graph.shape(nodes[0].output),
            kernels=tuple(_compare_kernels(nodes[0], graph, predictor) for predictor in predictors),
        )
        for nodes in alike.values()
    ]


def _compare_kernels(node: Node, graph: Graph, predictor: Predictor) -> KernelChoice:
    """Return the kernel that a device chooses for a node, and the best measured one that accepts it."""
    chosen = predictor.choose(node, graph)
    us = _predict(node, graph, predictor, chosen)
    best, best_us = chosen, us
    for row in IMPLEMENTATIONS:
        parameters = row.accepts(node, graph, predictor.info)
        if parameters is None or row is chosen.implementation or not predictor.is_known(row.name):
            continue
        other = Selection(implementation=row, parameters=parameters)
        other_us = _predict(node, graph, predictor, other)
        if other_us < best_us:
            best, best_us = other, other_us
    return KernelChoice(
        device=predictor.info.name,
        kernel=chosen.implementation.name,
        us=us,
        best_kernel=best.implementation.name,
        best_us=best_us,
    )


def _predict(node: Node, graph: Graph, predictor: Predictor, selection: Selection) -> float:
    whole = Boxes.whole(graph.shape(node.output), 1)
    return float(predictor.predict(node, graph, whole, selection=selection).us[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """Times of all operators on one device, by name."""

    us: Mapping[str, float]
    best_us: Mapping[str, float]

    @classmethod
    def of(cls, layers: Sequence[Layer], device: int) -> "_Table":
        pairs = [(name, layer.kernels[device]) for layer in layers for name in layer.operators]
        return cls(
            us={name: kernel.us for name, kernel in pairs},
            best_us={name: kernel.best_us for name, kernel in pairs},
        )


def _add_speeds(tables: Sequence[Mapping[str, float]]) -> float:
    """Return the time of all operators when the speeds of all devices add up."""
    return sum(1 / sum(1 / max(table[name], 1e-9) for table in tables) for name in tables[0])


def _find_longest_path(graph: Graph, times: Mapping[str, float]) -> float:
    ends: dict[str, float] = {}
    for node in graph.nodes:
        start = max((ends[name] for name in node.inputs if name in ends), default=0.0)
        ends[node.output] = start + times.get(node.name, 0.0)
    return max(ends.values(), default=0.0)
