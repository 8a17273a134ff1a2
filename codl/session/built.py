"""Kernels that a session has built are taken for other shapes too, rather than new ones compiled.

Source:
    40 shapes of twelve convolutions, and 1 to 200 rows of a decoder, planned for the emulated pair, AVX-512:
    16 to 18 programs instead of 62, and 22 to 26 instead of 52. Of the predicted time, plans take 1.011 to
    1.027, and 0.998 to 1.013, 1.17 at worst.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf

from codl.catalog.candidates import can_use, fits_device
from codl.catalog.shape_key import find_class
from codl.catalog.spec import Parameters, Selection
from codl.devices.launch import find_program
from codl.devices.opencl import Device, open_device
from codl.errors import UnsupportedError
from codl.ir.graph import Graph, Node
from codl.ir.ops import HostCall
from codl.ir.regions import Boxes
from codl.latency.predictor import Predictor
from codl.machine import DeviceKind
from codl.session.predictors import guess_predictors
from codl.session.request import PlanRequest

_LONGEST = 1.25
"""Times the best kernel's latency that another one may take which is built already."""
_LEAST_TILE = 0.5
"""Share of the best kernel's tile; predictions are too low for smaller ones.

Source:
    150 rows of a decoder by tiles of one row instead of 8 to 14: 2.5 times as long, 1.1 predicted.
"""
_LITTLE = 0.01
"""Share of the network's latency that an operator may lose in any case."""


@dataclass(slots=True, eq=False)
class BuiltKernels:
    """The kernels that were chosen for a model's shapes so far."""

    _known: dict[str, dict[str, Selection]] = field(default_factory=dict)
    """By device name and by what their programs are built with."""

    def prefer(self, graph: Graph, request: PlanRequest) -> PlanRequest:
        """Return a request that chooses kernels which are built already, where these take about as long.

        The kernels that it chooses are known from now on. Those of GPUs stay as they are: their programs
        depend on no shapes.

        Args:
            graph: The network for some shapes.
            request: What is asked for.
        """
        databases = {
            one.info.name: replace(one.database, named=self._name(graph, one))
            for one in request.predictors or guess_predictors(request.devices)
            if one.info.kind is DeviceKind.CPU
        }
        predictors = [
            one.with_database(databases.get(one.info.name, one.database)) for one in request.predictors
        ]
        return replace(request, predictors=tuple(predictors), databases=databases)

    def _name(self, graph: Graph, predictor: Predictor) -> Mapping[Hashable, Selection]:
        """Return the kernels to take in place of others, by class of operators."""
        known = self._known.setdefault(predictor.info.name, {})
        nodes = {find_class(node, graph): node for node in graph.nodes if not isinstance(node.op, HostCall)}
        chosen, named = {}, {}
        for key, node in nodes.items():
            with suppress(UnsupportedError):  # it may be another device's
                chosen[key] = predictor.choose(node, graph)
        if known:
            case = _Case(
                graph, predictor, open_device(predictor.info.name, precision=predictor.info.precision)
            )
            times_us = {key: case.predict_us(nodes[key], selection) for key, selection in chosen.items()}
            spare_us = _LITTLE * sum(times_us.values())
            for key, best in chosen.items():
                node = nodes[key]
                if case.is_built(node, best):
                    continue
                alike = [one for one in known.values() if _are_alike(one, best)]
                others = [(case.predict_us(node, one), one) for one in case.list_usable(node, alike)]
                us, other = min(others, key=lambda found: found[0], default=(inf, best))
                if us <= max(_LONGEST * times_us[key], times_us[key] + spare_us):
                    named[key] = other
        known.update((str(selection), selection) for selection in {**chosen, **named}.values())
        return named


def _are_alike(one: Selection, best: Selection) -> bool:
    """Return whether a kernel is the best one with other parameters, and a tile that is not much smaller."""
    if one.implementation is not best.implementation:
        return False
    return _LEAST_TILE * _count_tile(best.parameters) <= _count_tile(one.parameters)


def _count_tile(parameters: Parameters) -> int:
    """Return the values of a register tile."""
    lanes = parameters.get("VECTOR", 1)
    return parameters.get("MR", 1) * parameters.get("NR", lanes * parameters.get("VECTORS", 1))


class _Case:
    """A network for some shapes on one device.

    Args:
        graph: The network.
        predictor: Of the device.
        device: The device.
    """

    def __init__(self, graph: Graph, predictor: Predictor, device: Device) -> None:
        self._graph, self._predictor, self._device = graph, predictor, device

    def predict_us(self, node: Node, selection: Selection) -> float:
        """Return the latency of a whole operator."""
        out = Boxes.whole(self._graph.shape(node.output), 1)
        return float(self._predictor.predict(node, self._graph, out, selection=selection).us[0])

    def is_built(self, node: Node, selection: Selection) -> bool:
        """Return whether a kernel of an operator need not be compiled."""
        row, info = selection.implementation, self._device.info
        out = Boxes.whole(self._graph.shape(node.output), 1)
        batches = row.describe(node, self._graph, out, info, selection.parameters)
        programs = [find_program(one, row.source, selection.parameters, info=info) for one in batches]
        return all(self._device.has_program(*program) for program in programs)

    def list_usable(self, node: Node, known: Sequence[Selection]) -> Iterator[Selection]:
        """Yield those of some kernels that are built and compute an operator."""
        graph, info = self._graph, self._device.info
        for selection in known:
            default = selection.implementation.accepts(node, graph, info)
            if default is None or not can_use(selection, node, graph, info, default=default):
                continue
            if fits_device(selection, node, graph, info) and self.is_built(node, selection):
                yield selection
