"""From what a user asks for to a plan: planners by name, devices by name, the defaults."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from codl.catalog.choose import NO_DATABASES
from codl.catalog.stored import load_databases
from codl.devices.drivers import select_devices
from codl.devices.memory import arrange, arrange_named
from codl.errors import DeviceError, PlanError, ProfileError
from codl.executor.footprint import count_footprint
from codl.frontend import load_model
from codl.ir.graph import Graph
from codl.machine import DeviceInfo
from codl.options import SessionOptions
from codl.partitioner.even import plan_even, plan_single
from codl.plan.steps import Plan

_PROFILED = ("greedy", "dynamic")


def make_plan(
    graph: Graph,
    *,
    planner: str,
    devices: Sequence[str],
    ratios: Sequence[float] | None = None,
    max_chain_length: int = 8,
    axes: Sequence[int] | None = None,
) -> Plan:
    """Return a plan of ``graph`` by the planner of that name.

    Args:
        graph: The network.
        planner: `even` or `single:<device>`.
        devices: Device names that the plan may use.
        ratios: Share of each device, for `even`.
        max_chain_length: Most operators in a chain.
        axes: Axes to cut along in order of preference, for `even`.

    Raises:
        PlanError: No such planner, or arguments it cannot work with.
        ProfileError: The planner needs profiles that the devices do not have.
    """
    check_planner(planner, devices)
    if planner == "even":
        extra: dict[str, Any] = {} if axes is None else {"axes": axes}
        return plan_even(graph, devices=devices, ratios=ratios, max_chain_length=max_chain_length, **extra)
    device = planner.partition(":")[2]
    return plan_single(graph, device=device, devices=tuple(dict.fromkeys((*devices, device))))


def check_planner(planner: str, devices: Sequence[str]) -> None:
    """Raise an error when no plan can be made by a planner of this name, or return silently.

    Raises:
        PlanError: No such planner.
        ProfileError: The planner needs profiles that the devices do not have.
    """
    if planner in _PROFILED:
        raise ProfileError(
            f"planner {planner!r}: got no profile of {', '.join(devices)}, expected one for each device; "
            "run `codl profile`, or use planner 'even' or 'single:<device>'"
        )
    kind, _, device = planner.partition(":")
    if planner != "even" and not (kind == "single" and device):
        raise PlanError(f"planner: got {planner!r}, expected 'even' or 'single:<device>'")


def plan(
    model: str | os.PathLike[str] | bytes,
    *,
    devices: Sequence[str],
    planner: str = "even",
    ratios: Sequence[float] | None = None,
    max_chain_length: int = 8,
    axes: Sequence[int] | None = None,
) -> Plan:
    """Return a plan for a model without touching a device; arguments as in `make_plan`.

    Raises:
        ModelError: The model is broken, or has an operator that nobody here knows.
        PlanError: No such planner, or arguments it cannot work with.
        ProfileError: The planner needs profiles that the devices do not have.
    """
    graph = load_model(model).graph
    made = make_plan(
        graph,
        planner=planner,
        devices=devices,
        ratios=ratios,
        max_chain_length=max_chain_length,
        axes=axes,
    )
    made = count_memory(made, graph)
    return made if isinstance(model, bytes) else replace(made, model=os.fspath(model))


def count_memory(plan: Plan, graph: Graph, infos: Sequence[DeviceInfo] | None = None) -> Plan:
    """Return a plan that says how much memory it takes.

    Args:
        plan: A sound plan of the graph.
        graph: The network.
        infos: Facts of devices. Unless they tell of all the plan's, memory is shared as the devices' names
            let expect, and weights are not counted.
    """
    known = {info.name: info for info in infos or ()}
    facts = [known[name] for name in plan.devices] if known.keys() >= set(plan.devices) else None
    arrangement = arrange_named(plan.devices) if facts is None else arrange(facts)
    databases = NO_DATABASES if facts is None else load_databases(facts)
    memory = count_footprint(graph, plan, arrangement, devices=facts, databases=databases)
    return replace(plan, memory=memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What a session's options ask for, with real device names: enough to plan for any shapes."""

    devices: tuple[str, ...]
    planner: str = ""
    plan: Plan | None = None
    """Use this plan, whatever the planner."""
    ratios: tuple[float, ...] | None = None
    axes: tuple[int, ...] | None = None
    max_chain_length: int = 8

    def make(self, graph: Graph) -> Plan:
        """Return the plan for a graph."""
        if self.plan is not None:
            return self.plan
        return make_plan(
            graph,
            planner=self.planner,
            devices=self.devices,
            ratios=self.ratios,
            max_chain_length=self.max_chain_length,
            axes=self.axes,
        )


def resolve_request(options: SessionOptions) -> PlanRequest:
    """Return what the options of a session ask for; finds the devices.

    Raises:
        DeviceError: No such device, or `even` without devices.
        PlanError: No such planner, or the plan's file holds none.
        ProfileError: The planner needs profiles that the devices do not have.
    """
    if options.plan is not None:
        given = options.plan if isinstance(options.plan, Plan) else Plan.load(options.plan)
        if given.devices:  # a plan that names none, or one twice, breaks a law of plans
            select_devices(tuple(dict.fromkeys(given.devices)))
        return PlanRequest(devices=given.devices, plan=given)
    names = tuple(opened.info.name for opened in select_devices(options.devices))
    planner = f"single:{names[0]}" if options.planner is None else options.planner
    check_planner(planner, names)
    if planner.startswith("single:"):
        wanted = select_devices([planner.partition(":")[2]])[0].info.name
        return PlanRequest(devices=(wanted,), planner=f"single:{wanted}")
    if options.devices is None:
        raise DeviceError("planner 'even' divides work without knowing speeds: name the devices it may use")
    return PlanRequest(
        devices=names,
        planner=planner,
        ratios=None if options.ratios is None else tuple(options.ratios),
        axes=None if options.axes is None else tuple(options.axes),
        max_chain_length=options.max_chain_length,
    )
