"""The one place that knows all rooms: a model is loaded, planned, compiled and run."""

from codl.session.binding import IOBinding
from codl.session.planning import check_planner, count_memory, make_plan, plan
from codl.session.session import InferenceSession

__all__ = ["IOBinding", "InferenceSession", "check_planner", "count_memory", "make_plan", "plan"]
