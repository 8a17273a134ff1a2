"""What samples are of, in the words of predictors: the case that was measured, and its features."""

from codl.catalog.layers import Layer, parse_layer
from codl.catalog.spec import Implementation, Selection
from codl.ir.boxes import Boxes, Region
from codl.latency.amounts.crossing import find_crossing
from codl.latency.amounts.epilogues import Epilogues
from codl.latency.features import Features, extract_features
from codl.machine import DeviceInfo
from codl.profiler.case import Case
from codl.profiler.log import Sample


def describe_boxes(
    layer: Layer, selection: Selection, out: Boxes, info: DeviceInfo, *, are_constants_far: bool = False
) -> Features:
    """Return the features of boxes of a layer's output.

    Args:
        layer: The layer.
        selection: What computes it.
        out: The boxes.
        info: The device.
        are_constants_far: Whether the layer's constants come from memory.
    """
    graph = layer.make_graph()
    node = graph.nodes[-1]
    batches = selection.implementation.describe(node, graph, out, info, selection.parameters)
    crossing = find_crossing(node, graph, out)
    epilogues = Epilogues.of(layer.epilogue)
    return extract_features(
        batches,
        selection.parameters,
        info,
        epilogues=epilogues,
        crossing=crossing,
        far_share=float(are_constants_far),
    )


def restore_case(sample: Sample, row: Implementation) -> Case:
    """Return the case of a sample, to measure it again."""
    return Case(
        layer=parse_layer(sample.layer),
        selection=Selection(implementation=row, parameters=sample.parameters),
        region=Region(sample.begin, sample.end),
        are_constants_far=sample.are_constants_far,
    )
