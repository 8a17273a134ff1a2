from collections.abc import Callable
from dataclasses import replace

import pytest

from codl.errors import PlanError
from codl.partitioner.even import plan_even
from codl.plan.check import check_plan, find_problems
from codl.plan.single import plan_single
from codl.plan.steps import Chain, Cut, Host, Plan, Run, Step
from tests.graphs import host_between, residual_block

GRAPH = residual_block()
DEVICES = ("left", "right")
SOUND = plan_even(GRAPH, devices=DEVICES, max_chain_length=4)


def with_cuts(*cuts: Cut) -> Plan:
    whole = SOUND.steps[0]
    assert isinstance(whole, Chain)
    return replace(SOUND, steps=(replace(whole, cuts=cuts),))


def with_first_cut(**changes: object) -> Plan:
    whole = SOUND.steps[0]
    assert isinstance(whole, Chain)
    return with_cuts(replace(whole.cuts[0], **changes))  # type: ignore[arg-type]


def runs(*names: str) -> tuple[Run, ...]:
    return tuple(Run(node=name, device="left") for name in names)


def chain(*names: str, cuts: tuple[Cut, ...]) -> Chain:
    return Chain(nodes=names, axis=2, cuts=cuts)


def half(tensor: str, length: int = 12) -> Cut:
    return Cut(tensor=tensor, axis=2, bounds=(0, length // 2, length))


@pytest.mark.parametrize("plan", [SOUND, plan_single(GRAPH, device="left")], ids=["chain", "single"])
def test_sound_plan_has_no_problem(plan: Plan) -> None:
    assert list(find_problems(plan, GRAPH)) == []


BROKEN: dict[str, tuple[Callable[[], Plan], str]] = {
    "no devices": (lambda: replace(SOUND, devices=()), "got none"),
    "device twice": (lambda: replace(SOUND, devices=("left", "left")), "listed 2 times"),
    "foreign model": (lambda: replace(SOUND, fingerprint="0" * 64), "fingerprint"),
    "profile count": (lambda: replace(SOUND, profiles=("a",)), "profiles"),
    "testbed count": (lambda: replace(SOUND, testbed=("a",)), "testbed"),
    "unknown node": (lambda: replace(SOUND, steps=runs("conv_z")), "does not exist"),
    "empty chain": (lambda: replace(SOUND, steps=(Chain(nodes=(), axis=2, cuts=()),)), "without nodes"),
    "node left out": (
        lambda: replace(SOUND, steps=runs("conv_a", "conv_b", "conv_c")),
        "'pool' is computed 0 times",
    ),
    "node twice": (
        lambda: replace(SOUND, steps=runs("conv_a", "conv_a", "conv_b", "conv_c", "pool")),
        "'conv_a' is computed 2 times",
    ),
    "wrong order": (
        lambda: replace(SOUND, steps=runs("conv_b", "conv_a", "conv_c", "pool")),
        "reads 'a' before",
    ),
    "unknown device": (
        lambda: replace(SOUND, steps=tuple(Run(node=n.name, device="middle") for n in GRAPH.nodes)),
        "'middle'",
    ),
    "not connected": (
        lambda: replace(
            SOUND,
            steps=(
                *runs("conv_a"),
                chain("conv_b", "pool", cuts=(half("b"), half("y", 6))),
                *runs("conv_c"),
            ),
        ),
        "not connected",
    ),
    "not convex": (
        lambda: replace(
            SOUND,
            steps=(
                chain("conv_a", "conv_c", cuts=(half("a"), half("c"))),
                *runs("conv_b", "pool"),
            ),
        ),
        "not convex",
    ),
    "cut missing": (
        with_cuts,
        "has 0 cuts",
    ),
    "cut of private tensor": (
        lambda: with_cuts(half("a"), half("y", 6)),
        "not read outside",
    ),
    "axis out of range": (lambda: with_first_cut(axis=4), "axis 4"),
    "axis of another chain": (lambda: with_first_cut(axis=3), "as its chain"),
    "too few bounds": (lambda: with_first_cut(bounds=(0, 6)), "2 bounds"),
    "falling bounds": (lambda: with_first_cut(bounds=(0, 8, 6)), "fall"),
    "short of the end": (lambda: with_first_cut(bounds=(0, 2, 5)), "do not cover"),
    "past the end": (lambda: with_first_cut(bounds=(0, 2, 7)), "do not cover"),
    "behind the start": (lambda: with_first_cut(bounds=(1, 2, 6)), "do not cover"),
}


@pytest.mark.parametrize(("make", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_law_is_named(make: Callable[[], Plan], message: str) -> None:
    plan = make()
    assert any(message in problem for problem in find_problems(plan, GRAPH)), list(find_problems(plan, GRAPH))
    with pytest.raises(PlanError, match="breaks"):
        check_plan(plan, GRAPH)


MIXED = host_between()
HOST = Host(nodes=("top", "top/i"))
ON_HOST: dict[str, tuple[tuple[Step, ...], str]] = {
    "host call on a device": (runs("conv_a", "top", "top/i", "conv_b"), "'top' has no kernel"),
    "host call in a chain": (
        (*runs("conv_a"), chain("top", "top/i", "conv_b", cuts=(half("y"), half("i")))),
        "'top/i' has no kernel",
    ),
    "kernel on the host": (
        (Host(nodes=("conv_a", "top", "top/i")), *runs("conv_b")),
        "'conv_a' has a kernel",
    ),
    "half a group": (
        (*runs("conv_a"), Host(nodes=("top",)), Host(nodes=("top/i",)), *runs("conv_b")),
        "'top/i' is missing",
    ),
    "empty step": ((*runs("conv_a"), Host(nodes=()), HOST, *runs("conv_b")), "got a host without nodes"),
    "too early": ((HOST, *runs("conv_a", "conv_b")), "'top' reads 'a' before it is computed"),
}


@pytest.mark.parametrize("case", ON_HOST)
def test_broken_host_step_is_named(case: str) -> None:
    steps, message = ON_HOST[case]

    with pytest.raises(PlanError, match=message):
        check_plan(Plan(devices=DEVICES, steps=steps), MIXED)


@pytest.mark.parametrize("length", [1, 8])
def test_planners_keep_host_steps_apart(length: int) -> None:
    for plan in (
        plan_even(MIXED, devices=DEVICES, max_chain_length=length),
        plan_single(MIXED, device="left"),
    ):
        assert list(find_problems(plan, MIXED)) == []
        assert [step.kind for step in plan.steps][1] == "host"
        assert plan.steps[1] == replace(HOST, operators=("TopK",), reasons=("no kernel for TopK",))


def test_steps_without_unknown_nodes_are_looked_at_too() -> None:
    cut = Cut(tensor="c", axis=2, bounds=(0, 8, 6))
    plan = replace(SOUND, steps=(*runs("nobody"), chain("conv_a", "conv_b", "conv_c", cuts=(cut,))))

    problems = list(find_problems(replace(plan, fingerprint="0" * 64), GRAPH))

    for word in ("fingerprint", "'nobody' does not exist", "fall", "do not cover"):
        assert any(word in problem for problem in problems), problems
