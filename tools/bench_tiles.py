"""Layers of networks on a GPU, each alone: what is chosen, and every tile and cut of its sums.

A layer's time is that of a step of a walk: the tape has it several times, with barriers between. The choice
of the rule stands next to the fastest one, and the network's time by both.

Example:
    python tools/bench_tiles.py --networks resnet50 --output tiles.json
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from codl.catalog.choose import choose
from codl.catalog.groups import GROUP, takes_groups
from codl.catalog.rows import conv2d_tile, conv2d_winograd_tile
from codl.catalog.rows.windows import has_constant_weights
from codl.catalog.shape_key import make_shape_key
from codl.catalog.spec import Selection
from codl.devices.memory import place_in
from codl.devices.opencl import Device, open_device
from codl.executor.scratch import Scratch
from codl.executor.trace import EventKind, Label
from codl.executor.walks import DeviceWalks
from codl.executor.weights import Weights
from codl.frontend import load_graph
from codl.ir.graph import Graph, Node
from codl.ir.regions import Boxes, Region
from codl.machine import Precision
from tools.networks import build

TILE_ROWS = (*conv2d_tile.IMPLEMENTATIONS, *conv2d_winograd_tile.IMPLEMENTATIONS)
STEPS_OF_A_TAPE, RUNS = 6, 5


def main() -> int:
    """Measure, print a row for each layer, write a JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", default="resnet50,vgg16,squeezenet,mobilenet_v2")
    parser.add_argument("--device", default="nvidia-gpu")
    parser.add_argument("--precision", type=Precision, choices=list(Precision), default=Precision.FLOAT32)
    parser.add_argument("--output", type=Path, metavar="FILE")
    args = parser.parse_args()
    device = open_device(args.device, precision=args.precision).with_profiling()
    found: dict[str, Any] = {}
    for name in args.networks.split(","):
        graph = load_graph(build(name).SerializeToString())
        found[name] = measure_network(graph, device)
        rows = found[name].values()
        chosen, best = (
            sum(row["count"] * row[key] for row in rows if key in row) for key in ("us", "best_us")
        )
        print(f"{name}: {chosen:.0f} us as chosen, {best:.0f} us with the fastest of each layer", flush=True)
        if args.output:
            args.output.write_text(json.dumps(found, indent=1))
    return 0


def measure_network(graph: Graph, device: Device) -> dict[str, Any]:
    """Return by shape what each distinct layer takes in us."""
    nodes = {str(make_shape_key(node, graph)): node for node in graph.nodes}
    counts = Counter(str(make_shape_key(node, graph)) for node in graph.nodes)
    weights, rows = Weights(graph), {}
    for key, node in nodes.items():
        row: dict[str, Any] = {"node": node.name, "count": counts[key]}
        try:
            chosen = choose(node, graph, device.info)
            row |= {"chosen": str(chosen), "us": time_step(node, graph, device, chosen, weights)}
            tried = {
                str(other): time_step(node, graph, device, other, weights)
                for other in iterate_tiles(node, graph, device)
            }
            best = min(tried, key=lambda one: tried[one], default="")
            row |= {"tried": tried, "best": best, "best_us": min([row["us"], *tried.values()])}
        except Exception as error:  # one layer must not cost the others
            row["error"] = f"{type(error).__name__}: {error}"[:500]
        rows[key] = row
        said = (
            row.get("error")
            or f"{row['us']:8.1f}  {row['chosen']:60} best {row['best_us']:8.1f} {row['best']}"
        )
        print(f"{row['count']:3} {key[:90]:90} {said}", flush=True)
    return rows


def iterate_tiles(node: Node, graph: Graph, device: Device) -> Iterator[Selection]:
    """Yield every way to compute a convolution by tiles that is not hopeless."""
    if not takes_groups(device.info) or not has_constant_weights(node, graph):
        return
    whole = Boxes.whole(graph.shape(node.output), 1)
    for row in TILE_ROWS:
        assert row.fits is not None
        for values in product(*row.allowed.values()):
            parameters = dict(zip(row.allowed, values, strict=True))
            if not row.fits(node, graph, device.info, parameters):
                continue
            batches = row.describe(node, graph, whole, device.info, parameters)
            groups = max(int(batch.global_size[0, 0]) for batch in batches) // GROUP
            if parameters["parts"] > 1 and len(batches) == 1 and groups > 3 * device.info.units:
                continue
            yield Selection(implementation=row, parameters=parameters)


def time_step(
    node: Node,
    graph: Graph,
    device: Device,
    selection: Selection,
    weights: Weights,
    *,
    stage: int | None = None,
) -> float:
    """Return what a node, or one of its launches, takes in us as steps of a walk, barriers included."""
    whole = Boxes.whole(graph.shape(node.output), 1)
    row, parameters = selection.implementation, selection.parameters
    walks, scratch = DeviceWalks(device, graph, weights), Scratch(device)
    storages = {}
    for name in dict.fromkeys((node.output, *node.inputs)):
        region = Region.whole(graph.shape(name))
        if name in graph.constants:
            storages[name] = weights.plain(name, device)
        else:
            storages[name] = place_in(region, device.allocate(region.size))
            device.fill(storages[name].buffer, 0.5)
    label = Label(kind=EventKind.LAUNCH, device=0, name=node.name)
    for _ in range(STEPS_OF_A_TAPE):
        batches = row.describe(node, graph, whole, device.info, parameters)
        for batch in batches if stage is None else batches[stage : stage + 1]:
            operands = [storages[arg.name] for arg in batch.tensors]
            if not walks.take(batch, operands, parameters, label):
                raise ValueError(f"no step of a walk: {selection}")
    walks.close()
    (launch,) = walks.finish(scratch, lambda buffer: buffer)
    buffer = scratch.bind()
    times = []
    for _ in range(RUNS):
        event: Any = launch.enqueue()
        device.finish()
        times.append((event.profile.end - event.profile.start) / 1e3 / STEPS_OF_A_TAPE)
    del buffer
    return float(median(times))


if __name__ == "__main__":
    sys.exit(main())
