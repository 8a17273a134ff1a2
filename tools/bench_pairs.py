"""What pairs of nodes in one launch are worth: a network with them beside one without, interleaved.

Example:
    python tools/bench_pairs.py densenet121.onnx --devices intel-cpu,pocl-cpu
"""

import argparse
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from codl.catalog.table import PAIRS
from codl.devices.opencl import Device, open_devices
from codl.devices.timing import CONTROL_SUFFIX, interleave, lead_in, time_call
from codl.executor.compile import compile_plan
from codl.frontend import load_graph
from codl.ir.graph import Graph
from codl.plan.single import plan_single


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--devices", default="intel-cpu", metavar="A,B")
    parser.add_argument("--rounds", type=int, default=100, help="most rounds for each device (default: 100)")
    args = parser.parse_args()
    graph = load_graph(args.model.read_bytes())
    print("| device | launches | in pairs | apart/pairs | a/a |")
    print("|---|---|---|---|---|")
    for device in open_devices(args.devices.split(",")):
        print(compare(graph, device, most_rounds=args.rounds), flush=True)
    return 0


def compare(graph: Graph, device: Device, *, most_rounds: int) -> str:
    """Return the line of one device, the whole network on it."""
    plan = plan_single(graph, device=device.info.name)
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal(graph.shape(name), np.float32) for name in graph.inputs}
    apart, pairs = (compile_plan(graph, plan, [device], pairs=rows) for rows in ((), PAIRS))
    rows = {
        name: lead_in(time_call(partial(executable.run, feeds)))
        for name, executable in (("apart", apart), ("pairs", pairs))
    }
    rounds = interleave(rows, watch=[("apart", "pairs")], control="pairs", most_rounds=most_rounds)
    ratio, noise = rounds.ratio("apart", "pairs"), rounds.ratio(f"pairs{CONTROL_SUFFIX}", "pairs")
    return (
        f"| {device.info.name} | {apart.launch_count} | {pairs.launch_count} "
        f"| {ratio.median:.3f} [{ratio.low:.3f}, {ratio.high:.3f}] | {noise.median:.3f} |"
    )


if __name__ == "__main__":
    sys.exit(main())
