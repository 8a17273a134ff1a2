"""Searches looked at from outside: their candidates, and what they take a whole way to cost."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np

from codl.partitioner.candidates import choose_cuts
from codl.partitioner.chains import ChainBatch
from codl.partitioner.order import order_units
from codl.partitioner.planner import Planner
from codl.partitioner.search import Search
from codl.partitioner.search_state import Choice
from codl.partitioner.writing import write_plan
from codl.simulator.arrays import Ints
from codl.simulator.simulate import price_plan


def list_cuts(search: Search, position: int) -> list[ChainBatch]:
    """Return the candidates of dynamic programming that begin at a position."""
    batches = search.heads[position]
    chosen = choose_cuts(batches, [inf] * len(batches))
    return [_choose(batch, places) for batch, places in zip(batches, chosen, strict=True)]


def estimate_us(search: Search, choices: Sequence[Choice]) -> float:
    """Return what dynamic programming takes a whole way to cost, in us: close to its price."""
    heads = {
        choice.first: [_choose(choice.batch, np.array([choice.index]))]
        for choice in choices
        if choice.batch is not None
    }
    return search.program.run(heads, best=1)[0].end_us


def price_us(planner: Planner, choices: Sequence[Choice]) -> float:
    """Return the price in us of the plan of some choices."""
    graph, devices = planner.graph, planner.devices
    plan = write_plan(choices, order_units(graph), graph, devices)
    return price_plan(plan, graph, planner.predictors, planner.arrangement).predicted_us or 0.0


def _choose(batch: ChainBatch, places: Ints) -> ChainBatch:
    """Return some candidates."""
    return replace(
        batch,
        bounds={name: bounds[places] for name, bounds in batch.bounds.items()},
        reads={name: reading.choose(places) for name, reading in batch.reads.items()},
        busy_us=batch.busy_us[places],
        span_us=batch.span_us[places],
        ratios=batch.ratios[places],
        least_us=float(batch.span_us[places].min()),
    )
