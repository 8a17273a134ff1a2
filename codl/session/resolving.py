"""From a session's options to a request for plans: devices are found, and what is not known is measured."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from codl.devices.drivers import select_devices
from codl.errors import DeviceError
from codl.latency.predictor import Predictor
from codl.machine import DeviceInfo, Precision
from codl.options import SessionOptions
from codl.plan.steps import Plan
from codl.plan.testbed import find_other_testbed
from codl.session.predictors import find_default_predictors, find_predictors
from codl.session.ranking import select_default_devices
from codl.session.request import PROFILED, PlanRequest, check_planner

DEFAULT_PLANNER = "dynamic"
"""Where all devices have profiles."""
_LOG = logging.getLogger(__name__)


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


def _check_names(plan: Plan, infos: Sequence[DeviceInfo]) -> None:
    """Raise an error where a plan names a kind, or a part of a device that has no more units here."""
    for name, info in zip(dict.fromkeys(plan.devices), infos, strict=True):
        if name != info.name:
            raise DeviceError(
                f"plan: got device {name!r}, expected {info.name!r}, which it is here, with {info.units} "
                "compute units in all; plan the model again"
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
            opened = select_devices(tuple(dict.fromkeys(given.devices)))
            _check_names(given, [one.info for one in opened])
            if told := find_other_testbed(given, {one.info.name: one.info for one in opened}):
                _LOG.warning("%s", told)
        if options.precision != Precision.FLOAT32:
            given = replace(given, precision=Precision(options.precision))
        return PlanRequest(devices=given.devices, plan=given, precision=given.precision)
    precision = Precision(options.precision)
    chosen = select_default_devices() if options.devices is None else select_devices(options.devices)
    infos = [opened.info.in_precision(precision) for opened in chosen]
    names = tuple(info.name for info in infos)
    planner, predictors = resolve_planner(options.planner, infos)
    if planner.startswith("single:"):
        wanted = select_devices([planner.partition(":")[2]])[0].info.name
        return PlanRequest(devices=(wanted,), planner=f"single:{wanted}", precision=precision)
    if options.devices is None and planner == "even":
        raise DeviceError("planner 'even' divides work without knowing speeds: name the devices it may use")
    return PlanRequest(
        devices=names,
        planner=planner,
        ratios=None if options.ratios is None else tuple(options.ratios),
        axes=None if options.axes is None else tuple(options.axes),
        max_chain_length=options.max_chain_length,
        precision=precision,
        predictors=predictors,
    )
