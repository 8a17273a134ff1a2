"""The one place that knows all rooms: a model is loaded, planned, compiled and run."""

from codl.session.binding import IOBinding
from codl.session.planning import count_memory, make_plan, plan
from codl.session.predictors import find_predictors, load_predictors
from codl.session.ranking import select_default_devices
from codl.session.request import PROFILED, check_planner, predict_plan
from codl.session.resolving import DEFAULT_PLANNER, resolve_planner
from codl.session.session import InferenceSession

__all__ = [
    "DEFAULT_PLANNER",
    "PROFILED",
    "IOBinding",
    "InferenceSession",
    "check_planner",
    "count_memory",
    "find_predictors",
    "load_predictors",
    "make_plan",
    "plan",
    "predict_plan",
    "resolve_planner",
    "select_default_devices",
]
