"""A request for plans: which devices, which planner, and what is known of them."""

import gc
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from codl.catalog.choose import Databases
from codl.catalog.stored import load_databases
from codl.devices.drivers import find_device
from codl.devices.memory import arrange
from codl.errors import PlanError, ProfileError, suggest
from codl.ir.graph import Graph
from codl.latency.predictor import Predictor
from codl.machine import Precision
from codl.partitioner.even import plan_even
from codl.partitioner.planner import METHODS, Planner
from codl.plan.single import plan_single
from codl.plan.steps import Plan
from codl.session.kept_plans import remember_plans
from codl.simulator.simulate import price_plan

PROFILED = tuple(METHODS)
"""Planners that need to know what everything takes."""


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
    precision: Precision = Precision.FLOAT32
    """What products may be rounded to, as the facts of ``predictors`` have it."""
    predictors: tuple[Predictor, ...] = ()
    """What is known of the devices."""
    databases: Databases = field(default_factory=dict)
    """Which kernels are the best, by device name; those of other devices are what was measured of them."""

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
            "precision": self.precision,
            "profiles": [predictor.profile.fingerprint for predictor in self.predictors],
            "facts": [asdict(info) for info in infos],
            "kernels": {one.info.name: one.database.tell() for one in self.predictors},
        }

    def find_databases(self, devices: Sequence[str]) -> Databases:
        """Return which kernels are the best on devices of plans, by name."""
        unknown = [find_device(name).info for name in devices if name not in self.databases]
        return {**load_databases(unknown), **self.databases}

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
        return [replace(plan, planning_ms=taken_ms, precision=self.precision) for plan in found]

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


@contextmanager
def _pause_collector() -> Iterator[None]:
    """Pause the garbage collector: planners make many values, none of them cyclic."""
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
