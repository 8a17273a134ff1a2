"""The one place that knows all rooms: a model is loaded, planned, compiled and run."""

from typing import TYPE_CHECKING

from codl.lazy import find_lazily

if TYPE_CHECKING:
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
__getattr__ = find_lazily(
    __name__,
    {
        "codl.session.binding": ("IOBinding",),
        "codl.session.planning": ("count_memory", "make_plan", "plan"),
        "codl.session.predictors": ("find_predictors", "load_predictors"),
        "codl.session.ranking": ("select_default_devices",),
        "codl.session.request": ("PROFILED", "check_planner", "predict_plan"),
        "codl.session.resolving": ("DEFAULT_PLANNER", "resolve_planner"),
        "codl.session.session": ("InferenceSession",),
    },
)
