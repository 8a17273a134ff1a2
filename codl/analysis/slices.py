"""Predictions of every slice of a plan: each operator on each device, as it will be launched."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from codl.catalog.shape_key import find_class
from codl.ir.graph import Graph, Node
from codl.ir.regions import Boxes, Region
from codl.latency.predictor import Predictor
from codl.plan.residency import step_nodes
from codl.plan.shares import Share
from codl.plan.steps import Host, Plan, Run
from codl.plan.timeline import Span

Predictors = Sequence[Predictor | None]
"""By device; None for one without a profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One operator's region on one device."""

    region: Region
    kernel: str | None = None
    alone_us: float | None = None
    """While no other device works."""
    us: float | None = None
    """While other devices work too, as the plan's price has it."""
    uncertainty: float | None = None
    is_estimated: bool = False
    repeated_share: float = 0.0
    """Share of its time for what another device computes too."""


Slices = Mapping[tuple[str, int], Slice]
"""(node, device index) -> what it computes."""


def predict_slices(
    oracle: "Oracle",
    shares: Sequence[Sequence[Share]],
    *,
    devices: Sequence[str],
    timeline: Sequence[Span] = (),
) -> Slices:
    """Return all slices of a plan.

    Args:
        oracle: Predicts regions on devices alone.
        shares: What each device computes, by step and device.
        devices: Names of the devices.
        timeline: Of the priced plan; without it, slices take as long as alone.
    """
    graph = oracle.graph
    priced = {(span.name, span.track): span.duration_us for span in timeline if span.kind == "launch"}
    found = {}
    for step in shares:
        for device, share in enumerate(step):
            for name, region in share.computes.items():
                known = oracle.predict(graph.nodes_by_name[name], device, region)
                # Operators that are missing in a priced timeline take no time: their data is in place.
                us = priced.get((name, devices[device]), 0.0) if timeline else known.alone_us
                repeated = _find_repeated_share(name, step, graph)
                found[name, device] = replace(known, us=us, repeated_share=repeated)
    return found


def list_estimated(plan: Plan, graph: Graph, predictors: Sequence[Predictor]) -> list[str]:
    """Return the operators of which some device of a plan runs a kernel without a latency model."""
    found = []
    for step in plan.steps:
        if isinstance(step, Host):
            continue
        devices = (step.device,) if isinstance(step, Run) else plan.devices
        users = [one for one in predictors if one.info.name in devices]
        for name in step_nodes(step):
            node = graph.nodes_by_name[name]
            kernels = ((one, one.choose(node, graph).implementation.name) for one in users)
            if not all(one.is_known(kernel) for one, kernel in kernels):
                found.append(name)
    return found


def list_whole(plan: Plan, graph: Graph, predictors: Predictors) -> list[str]:
    """Return the operators that use all units of a device of which the plan asks for some.

    Their kernels are launches of as many work-groups as they have work for; they are priced as if they kept
    to the part.
    """
    found = []
    for step in plan.steps:
        devices = () if isinstance(step, Host) else (step.device,) if isinstance(step, Run) else plan.devices
        users = [one for one in predictors if one and one.info.is_part and one.info.name in devices]
        for name in step_nodes(step):
            node = graph.nodes_by_name[name]
            if not all(one.choose(node, graph).implementation.uses_groups for one in users):
                found.append(name)
    return found


def _find_repeated_share(name: str, step: Sequence[Share], graph: Graph) -> float:
    """Return how much of what all devices compute of an operator is computed more than once."""
    computed = sum(share.computes[name].size for share in step if name in share.computes)
    whole = Region.whole(graph.shape(graph.nodes_by_name[name].output)).size
    return max(0.0, 1 - whole / computed) if computed else 0.0


@dataclass(frozen=True, kw_only=True)
class Oracle:
    """Predicts regions of operators on devices alone; operators of one class are predicted once."""

    graph: Graph
    predictors: Predictors
    _known: dict[object, Slice] = field(default_factory=dict, repr=False)

    def predict(self, node: Node, device: int, region: Region) -> Slice:
        """Return the slice of a region of a node's output; without times if there is no profile."""
        key = (device, find_class(node, self.graph), region)
        if key not in self._known:
            self._known[key] = _predict(node, self.graph, region, self.predictors[device])
        return self._known[key]


def _predict(node: Node, graph: Graph, region: Region, predictor: Predictor | None) -> Slice:
    if predictor is None:
        return Slice(region=region)
    chosen = predictor.choose(node, graph)
    prediction = predictor.predict(node, graph, Boxes.of([region]), selection=chosen)
    return Slice(
        region=region,
        kernel=chosen.implementation.name,
        alone_us=float(prediction.us[0]),
        uncertainty=prediction.uncertainty,
        is_estimated=bool(prediction.is_estimated[0]),
    )
