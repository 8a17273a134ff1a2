"""The plan that runs a whole network on one device."""

from collections.abc import Sequence

from codl.ir.graph import Graph, Node
from codl.ir.ops import HostCall
from codl.plan.steps import Host, Plan, Run


def plan_single(graph: Graph, *, device: str, devices: Sequence[str] | None = None) -> Plan:
    """Return the plan that runs every node on ``device``."""
    steps = tuple(
        step
        for node in graph.nodes
        for step in (
            plan_host(node, graph) if isinstance(node.op, HostCall) else [Run(node=node.name, device=device)]
        )
    )
    return Plan(
        devices=tuple(devices or (device,)),
        steps=steps,
        planner=f"single:{device}",
        fingerprint=graph.fingerprint,
    )


def plan_host(node: Node, graph: Graph) -> tuple[Host, ...]:
    """Return the step of a host call's whole group at the first of its nodes, nothing at the others."""
    assert isinstance(node.op, HostCall)
    group, model = graph.host_groups[node.op.group], graph.host_models[node.op.group]
    if node is not group[0]:
        return ()
    names = tuple(member.name for member in group)
    return (Host(nodes=names, operators=model.operators, reasons=model.reasons),)
