"""From what a user asks for to a plan: planners by name, devices by name, the defaults."""

import gc
import logging
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from codl.catalog.choose import NO_DATABASES
from codl.catalog.stored import load_databases
from codl.devices.boundary import enough_memory
from codl.devices.drivers import select_devices
from codl.devices.memory import arrange, arrange_named
from codl.errors import DeviceError, PlanError, ProfileError, suggest
from codl.executor.footprint import count_footprint
from codl.executor.placement import check_planned_bytes
from codl.frontend import load_model
from codl.ir.graph import Graph
from codl.latency.predictor import Predictor
from codl.limits import DEFAULT_LIMITS, Limits
from codl.machine import DeviceInfo
from codl.options import SessionOptions
from codl.partitioner.even import plan_even
from codl.partitioner.planner import METHODS, Planner
from codl.plan.single import plan_single
from codl.plan.steps import Plan
from codl.plan.testbed import find_other_testbed, keep_testbed
from codl.session.kept_plans import remember_plans
from codl.session.predictors import (
    find_default_predictors,
    find_named_predictors,
    find_predictors,
    load_predictors,
)
from codl.session.ranking import select_default_devices
from codl.simulator.simulate import price_plan

PROFILED = tuple(METHODS)
"""Planners that need to know what everything takes."""
DEFAULT_PLANNER = "dynamic"
"""Where all devices have profiles."""
_LOG = logging.getLogger(__name__)


def make_plan(
    graph: Graph,
    *,
    planner: str,
    devices: Sequence[str],
    ratios: Sequence[float] | None = None,
    max_chain_length: int = 8,
    axes: Sequence[int] | None = None,
    predictors: Sequence[Predictor] = (),
) -> Plan:
    """Return a plan of ``graph`` by the planner of that name.

    Args:
        graph: The network.
        planner: `greedy`, `dynamic`, `even` or `single:<device>`.
        devices: Device names that the plan may use.
        ratios: Share of each device, for `even`.
        max_chain_length: Most operators in a chain.
        axes: Axes to cut along; in order of preference for `even`.
        predictors: What is known of the devices; a plan of theirs carries predictions.

    Raises:
        PlanError: No such planner, or arguments it cannot work with.
        ProfileError: The planner needs profiles that the devices do not have.
    """
    request = PlanRequest(
        devices=tuple(devices),
        planner=planner,
        ratios=None if ratios is None else tuple(ratios),
        max_chain_length=max_chain_length,
        axes=None if axes is None else tuple(axes),
        predictors=tuple(predictors),
    )
    return request.make(graph, most=1)[0]


@contextmanager
def _pause_collector() -> Iterator[None]:
    """Let planners make values, none of which are circular, without anyone looking for circles among them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def predict_plan(plan: Plan, graph: Graph, predictors: Sequence[Predictor]) -> Plan:
    """Return a sound plan with predictions if there are predictors of all its devices, else as it is."""
    known = {predictor.info.name: predictor for predictor in predictors}
    if not set(plan.devices) <= set(known):
        return plan
    infos = [known[name].info for name in plan.devices]
    return price_plan(plan, graph, predictors, arrange(infos))


def check_planner(planner: str, devices: Sequence[str], known: Collection[str] = ()) -> None:
    """Raise an error when no plan can be made by a planner of this name, or return silently.

    Args:
        planner: Its name.
        devices: Device names that the plan may use.
        known: Those that have a profile.

    Raises:
        PlanError: No such planner.
        ProfileError: The planner needs profiles that the devices do not have.
    """
    unknown = [name for name in devices if name not in known]
    if planner in PROFILED and unknown:
        raise ProfileError(
            f"planner {planner!r}: got no profile of {', '.join(unknown)}, expected one for each device; "
            "run `codl profile`, or use planner 'even' or 'single:<device>'"
            f"{suggest(unknown[0], known)}"
        )
    kind, _, device = planner.partition(":")
    if planner not in ("even", *PROFILED) and not (kind == "single" and device):
        raise PlanError(
            f"planner: got {planner!r}, expected 'greedy', 'dynamic', 'even' or 'single:<device>'"
            f"{suggest(planner, (*PROFILED, 'even'))}"
        )


@enough_memory("plan")
def plan(
    model: str | os.PathLike[str] | bytes,
    *,
    devices: Sequence[str],
    planner: str = "even",
    ratios: Sequence[float] | None = None,
    max_chain_length: int = 8,
    axes: Sequence[int] | None = None,
    profiles: Sequence[str | os.PathLike[str]] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Plan:
    """Return a plan for a model without touching a device; arguments as in `make_plan`.

    Args:
        model: ONNX file or its bytes.
        devices: As in `make_plan`.
        planner: As in `make_plan`.
        ratios: As in `make_plan`.
        max_chain_length: As in `make_plan`.
        axes: As in `make_plan`.
        profiles: Folders of the devices' profiles; by default those that are found under their names.
        limits: Bounds on what the model may ask for.

    Raises:
        ModelError: The model is broken, or has an operator that nobody here knows.
        PlanError: No such planner, or arguments it cannot work with.
        ProfileError: The planner needs profiles that the devices do not have.
    """
    if profiles is not None:
        predictors = load_predictors(profiles)
    else:
        predictors = find_named_predictors(devices) if planner in PROFILED else ()
    check_planner(planner, devices, {predictor.info.name for predictor in predictors})
    graph = load_model(model, limits=limits).graph
    made = make_plan(
        graph,
        planner=planner,
        devices=devices,
        ratios=ratios,
        max_chain_length=max_chain_length,
        axes=axes,
        predictors=predictors,
    )
    made = count_memory(made, graph)
    planned = sum(memory.activation_bytes for memory in made.memory)
    check_planned_bytes(graph, planned, most_bytes=limits.planned_bytes)
    return made if isinstance(model, bytes) else replace(made, model=os.fspath(model))


def count_memory(plan: Plan, graph: Graph, infos: Sequence[DeviceInfo] | None = None) -> Plan:
    """Return a plan that says how much memory it takes, and on which devices.

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
    return keep_testbed(replace(plan, memory=memory), facts or ())


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
    predictors: tuple[Predictor, ...] = ()
    """What is known of the devices."""

    def rank(self, graph: Graph) -> Sequence[Plan]:
        """Return the plans for a graph that are worth a measurement, the best first."""
        if self.plan is not None:
            return [self.plan]
        if self.planner not in PROFILED:
            return self.make(graph)
        return remember_plans(graph, self.tell(), lambda: self.make(graph))

    def tell(self) -> Mapping[str, Any]:
        """Return all that plans of a graph depend on."""
        infos = [predictor.info for predictor in self.predictors]
        return {
            "planner": self.planner,
            "devices": self.devices,
            "ratios": self.ratios,
            "axes": self.axes,
            "max_chain_length": self.max_chain_length,
            "profiles": [predictor.profile.fingerprint for predictor in self.predictors],
            "facts": [asdict(info) for info in infos],
            "kernels": {name: repr(database) for name, database in load_databases(infos).items()},
        }

    def make(self, graph: Graph, *, most: int = 3) -> Sequence[Plan]:
        """Return the planner's plans that are worth a measurement, made anew; errors as in `make_plan`.

        Args:
            graph: The network.
            most: As in `Planner.rank`.
        """
        start = time.perf_counter()
        known = {predictor.info.name: predictor for predictor in self.predictors}
        check_planner(self.planner, self.devices, known)
        method = METHODS.get(self.planner)
        if method is not None:
            chosen = [known[name] for name in self.devices]
            made = Planner(
                graph=graph,
                predictors=chosen,
                arrangement=arrange([predictor.info for predictor in chosen]),
                max_chain_length=self.max_chain_length,
                axes=self.axes,
            )
            with _pause_collector():
                found = made.rank(method, most=most)
        else:
            found = [predict_plan(self._plan_unprofiled(graph), graph, self.predictors)]
        taken_ms = (time.perf_counter() - start) * 1e3
        return [replace(plan, planning_ms=taken_ms) for plan in found]

    def _plan_unprofiled(self, graph: Graph) -> Plan:
        if self.planner == "even":
            extra: dict[str, Any] = {} if self.axes is None else {"axes": self.axes}
            return plan_even(
                graph,
                devices=self.devices,
                ratios=self.ratios,
                max_chain_length=self.max_chain_length,
                **extra,
            )
        device = self.planner.partition(":")[2]
        if device not in self.devices:
            raise PlanError(
                f"planner: got {self.planner!r}, expected 'single:' and one of {', '.join(self.devices)}"
                f"{suggest(device, self.devices)}"
            )
        return plan_single(graph, device=device, devices=self.devices)


def resolve_planner(planner: str | None, infos: Sequence[DeviceInfo]) -> tuple[str, tuple[Predictor, ...]]:
    """Return the planner for some devices, and what is known of them as far as it has to know.

    Args:
        planner: Its name; None for the default, which needs profiles, or all on the first device.
        infos: Facts of the devices; one without a profile is measured for some seconds.

    Raises:
        PlanError: No such planner.
        ProfileError: The planner needs profiles that the devices do not have.
    """
    names = [info.name for info in infos]
    predictors: tuple[Predictor, ...] = ()
    if planner is None:
        predictors = find_default_predictors(infos)
        planner = DEFAULT_PLANNER if predictors else f"single:{names[0]}"
    elif planner in PROFILED:
        predictors = find_predictors(infos)
    check_planner(planner, names, {predictor.info.name for predictor in predictors})
    return planner, predictors


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
            opened = select_devices(tuple(dict.fromkeys(given.devices)))
            if told := find_other_testbed(given, {one.info.name: one.info for one in opened}):
                _LOG.warning("%s", told)
        return PlanRequest(devices=given.devices, plan=given)
    chosen = select_default_devices() if options.devices is None else select_devices(options.devices)
    infos = [opened.info for opened in chosen]
    names = tuple(info.name for info in infos)
    planner, predictors = resolve_planner(options.planner, infos)
    if planner.startswith("single:"):
        wanted = select_devices([planner.partition(":")[2]])[0].info.name
        return PlanRequest(devices=(wanted,), planner=f"single:{wanted}")
    if options.devices is None and planner == "even":
        raise DeviceError("planner 'even' divides work without knowing speeds: name the devices it may use")
    return PlanRequest(
        devices=names,
        planner=planner,
        ratios=None if options.ratios is None else tuple(options.ratios),
        axes=None if options.axes is None else tuple(options.axes),
        max_chain_length=options.max_chain_length,
        predictors=predictors,
    )
