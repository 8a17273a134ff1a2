"""Plans that were made or measured before, kept on disk."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from codl.assets import digest_code
from codl.cache.folders import PLANS
from codl.cache.sealed import SealedFile
from codl.errors import CacheError, PlanError
from codl.ir.graph import Graph
from codl.plan.check import check_plan
from codl.plan.steps import Plan

_ENTRY = "plan"


def remember_plans(
    graph: Graph, told: Mapping[str, Any], make: Callable[[], Sequence[Plan]]
) -> Sequence[Plan]:
    """Return what was made for the same network, facts and code before, else what is made now, which is kept.

    A kept plan that cannot be trusted is made again.

    Args:
        graph: The network, its shapes included.
        told: All else that the plans depend on: profiles, kernels, options.
        make: Makes them.
    """
    key = make_key(graph, told, "catalog", "latency", "partitioner", "plan", "session")
    known = PLANS.read(key, lambda entry: read_plans(entry, graph))
    if known is not None:
        return known
    made = make()
    write_plans(key, made, what=f"{graph.name} over {', '.join(made[0].devices)}: {made[0].planner}")
    return made


def make_key(graph: Graph, told: Mapping[str, Any], *rooms: str) -> str:
    """Return the key of plans: a hash of the graph, all else that they depend on, and some rooms' code."""
    facts = {**told, "graph": graph.fingerprint, "code": digest_code(*rooms)}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def read_plans(entry: SealedFile, graph: Graph) -> Sequence[Plan]:
    """Return the plans of a kept file, all of them sound.

    Raises:
        CacheError: It holds no plans of this network.
    """
    try:
        plans = [Plan.from_json(values) for values in json.loads(entry.text(_ENTRY))]
        for plan in plans:
            check_plan(plan, graph)
        if not plans:
            raise ValueError("an empty list")
    except (KeyError, TypeError, ValueError, PlanError) as error:
        raise CacheError(f"{entry.path}: holds no plan of this model ({error}); remove it") from error
    return plans


def write_plans(key: str, plans: Sequence[Plan], *, what: str) -> None:
    """Keep plans under a key."""
    text = json.dumps([replace(plan, memory=()).to_json() for plan in plans]).encode()
    PLANS.write(key, {_ENTRY: np.frombuffer(text, np.uint8)}, about={"what": what})
