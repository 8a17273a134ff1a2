"""Whole tuning sessions on a real device: budget, resume, verification, the database they leave."""

import errno
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from codl.catalog.choose import Rung, choose, explain_choice
from codl.catalog.database import read_database
from codl.catalog.spec import Implementation, LaunchBatch, Parameters
from codl.catalog.stored import load_database, user_path
from codl.catalog.table import IMPLEMENTATIONS
from codl.devices.inner_loops import Loop
from codl.devices.opencl import open_device
from codl.errors import ProfileError
from codl.executor.compile import compile_plan
from codl.ir.graph import Graph, Node
from codl.ir.ops import Conv2d
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo
from codl.plan.single import plan_single
from codl.tuner import prober as prober_module
from codl.tuner import workbench as workbench_module
from codl.tuner.measurement import MeasurementLog
from codl.tuner.report import State
from codl.tuner.search import SearchLimits
from codl.tuner.tune import LOG_NAME, Session, plan_tuning, tune
from codl.tuner.workbench import Workbench
from codl.tuner.workload import Shape, find_shapes
from tests.catalog.test_box_rows import SAMPLES
from tests.conftest import CHOSEN
from tests.kernels.convolutions import Case, build
from tests.kernels.harness import assert_right, cut
from tests.oracle import relative_error

DEVICE = open_device(CHOSEN.split(",")[0] if CHOSEN not in {"", "all"} else "cpu")
GEMM = next(row for row in IMPLEMENTATIONS if row.name == "conv2d_gemm__buffer")
_FAR = 100
"""Peaks are taken for so much higher: no bound rules a candidate out, however busy the machine was."""
FEW = SearchLimits(least=3, share=0.0, finalists=2)
SMALL = Case(image=(9, 10), inputs=8, outputs=24)


@cache
def bench() -> Workbench:
    """Return the device's bench; its peaks are measured once for all of these tests."""
    opened = Workbench.open(DEVICE)
    return replace(
        opened,
        peaks=replace(
            opened.peaks,
            flops={lanes: _FAR * rate for lanes, rate in opened.peaks.flops.items()},
            bandwidth=tuple((size, _FAR * rate) for size, rate in opened.peaks.bandwidth),
        ),
    )


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the session writes; no rounds are wasted on being sure."""
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(prober_module, "_FINAL_ROUNDS", 6)
    monkeypatch.setattr(prober_module, "_MOST_QUICK", 5)
    opened = bench()
    monkeypatch.setattr(Workbench, "open", lambda device: replace(opened, loops={}, wins={}))
    peak = max(bench().peaks.flops.values())
    monkeypatch.setattr(workbench_module, "measure_loops", lambda *asked: [peak] * len(asked[1]))
    return user_path(DEVICE.info).parent


def shapes_of(*cases: Case) -> tuple[Shape, ...]:
    return find_shapes([build(case)[0] for case in cases])


def count_lines(folder: Path, what: str) -> int:
    lines = (folder / LOG_NAME).read_text().splitlines()
    return sum(json.loads(line)["what"] == what for line in lines)


def test_a_tuned_shape_is_chosen_exactly_and_computes_right(folder: Path) -> None:
    graph, feeds, expected = build(SMALL)
    report = tune(DEVICE, find_shapes([graph]), Session(limits=FEW))

    (shape,) = report.shapes
    assert (shape.state, shape.measured) == (State.TUNED, 3)
    assert shape.entry is not None
    database = load_database(DEVICE.info)
    assert database == read_database(folder / "kernels.json", DEVICE.info)
    choice = explain_choice(graph.nodes[0], graph, DEVICE.info, database)
    assert (choice.rung, choice.selection.parameters) == (Rung.EXACT, shape.entry.parameters)
    name = DEVICE.info.name
    executable = compile_plan(
        graph, plan_single(graph, device=name, devices=(name,)), [DEVICE], databases={name: database}
    )
    assert relative_error(executable.run(feeds)["y"], expected) <= 1e-5


def test_entries_say_what_was_found(folder: Path) -> None:
    (shape,) = tune(DEVICE, shapes_of(SMALL), Session(limits=FEW)).shapes

    assert shape.entry is not None
    assert shape.entry.bound_seconds is not None
    assert shape.entry.default_seconds is not None
    assert 0 < shape.entry.seconds < 1.0
    assert shape.entry.date.startswith("20")
    assert (shape.entry.candidates, shape.entry.measured) == (shape.candidates, 3)


def test_a_second_session_measures_nothing_again(folder: Path) -> None:
    shapes = shapes_of(SMALL)
    tune(DEVICE, shapes, Session(limits=FEW))
    before = (folder / LOG_NAME).read_bytes()

    report = tune(DEVICE, shapes, Session(limits=FEW))

    assert [one.state for one in report.shapes] == [State.KNOWN]
    assert (folder / LOG_NAME).read_bytes() == before


def test_a_killed_session_goes_on_where_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class KilledError(BaseException):
        pass

    def kill(*_: object) -> None:
        raise KilledError

    shapes = shapes_of(SMALL, replace(SMALL, outputs=40))
    with monkeypatch.context() as patch:
        patch.setattr(prober_module.Prober, "compare", kill)
        with pytest.raises(KilledError):
            tune(DEVICE, shapes, Session(limits=FEW))
    quick = count_lines(folder, "measurement")
    with (folder / LOG_NAME).open("ab") as file:
        file.write(b'{"what": "measurem')  # as a kill in the middle of a line leaves it

    report = tune(DEVICE, shapes, Session(limits=FEW))

    assert [one.state for one in report.shapes] == [State.TUNED, State.TUNED]
    with MeasurementLog(folder / LOG_NAME) as log:
        of_first = [one for one in log.measurements() if one.shape == str(shapes[0].key)]
    assert quick == len({one.candidate for one in of_first if one.stage == "quick"})
    assert quick == sum(one.stage == "quick" for one in of_first)


def test_without_budget_nothing_is_measured(folder: Path) -> None:
    report = tune(DEVICE, shapes_of(SMALL), Session(budget_seconds=0.0))

    assert [one.state for one in report.shapes] == [State.LEFT]
    assert (folder / LOG_NAME).read_bytes() == b""
    assert not (folder / "kernels.json").exists()


def test_the_budget_ends_a_search_between_measurements(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10_000))
    monkeypatch.setattr(prober_module, "time", _Clock(clock))

    report = tune(DEVICE, shapes_of(SMALL), Session(budget_seconds=1e6, limits=SearchLimits(group=1)))
    assert report.shapes[0].state is State.LEFT
    assert report.shapes[0].note == "begun"
    assert count_lines(folder, "measurement") > 0
    assert count_lines(folder, "result") == 0


class _Clock:
    """A clock on which the deadline passes after a few looks."""

    def __init__(self, ticks: object) -> None:
        self._left = 4

    def monotonic(self) -> float:
        self._left -= 1
        return 0.0 if self._left > 0 else float("inf")


def test_a_dry_run_touches_nothing(folder: Path) -> None:
    report = plan_tuning(DEVICE.info, shapes_of(SMALL))

    assert report.shapes[0].candidates > 1
    assert report.shapes[0].state is State.LEFT
    assert not folder.exists()


def _describe_wrongly(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    """Describe a convolution that leaves out its last input channel, and so is faster than a right one."""
    (batch,) = GEMM.describe(node, graph, out, info, parameters)
    scalars = {**batch.scalars, "group_inputs": batch.scalars["group_inputs"] * 0}
    return (replace(batch, scalars=scalars, flops=batch.flops // 2, busiest_flops=None),)


def _accept_convolutions(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    return GEMM.accepts(node, graph, info) if isinstance(node.op, Conv2d) else None


WRONG: Implementation = replace(
    GEMM, name="conv2d_wrong__buffer", accepts=_accept_convolutions, describe=_describe_wrongly
)


def test_a_wrong_kernel_is_refused_however_fast_it_is(folder: Path) -> None:
    case = Case(image=(14, 14), inputs=64, outputs=32)
    graph, _, _ = build(case)
    default = GEMM.accepts(graph.nodes[0], graph, DEVICE.info)
    assert default is not None
    one_tile = {name: (value,) for name, value in default.items()}
    rows = tuple(replace(row, allowed=one_tile) for row in (GEMM, WRONG))
    limits = SearchLimits(finalists=6, margin=-10.0, prunes=False)

    (shape,) = tune(DEVICE, shapes_of(case), Session(rows=rows, limits=limits)).shapes

    assert shape.state is State.TUNED
    assert shape.entry is not None
    assert shape.entry.implementation == GEMM.name
    with MeasurementLog(folder / LOG_NAME) as log:
        measured = list(log.measurements())
    wrong = [one for one in measured if one.implementation == WRONG.name]
    fast = min(one.ratio for one in wrong if one.ratio)
    assert fast < min(one.ratio for one in measured if one.ratio and one.implementation == GEMM.name)
    assert any(one.error.startswith("wrong by") for one in wrong)


def test_only_wrong_kernels_fail_the_shape() -> None:
    (shape,) = tune(DEVICE, shapes_of(SMALL), Session(rows=(WRONG,), limits=FEW)).shapes

    assert shape.state is State.FAILED
    assert "wrong results" in shape.note


def test_a_kernel_that_does_not_build_is_passed_over(folder: Path) -> None:
    broken = replace(
        GEMM, name="conv2d_gone__buffer", source="gemm/gemm_packed__buffer.cl", fits=lambda *_: False
    )

    (shape,) = tune(DEVICE, shapes_of(SMALL), Session(rows=(broken, GEMM), limits=FEW)).shapes

    assert shape.state is State.TUNED
    assert shape.entry is not None
    assert shape.entry.implementation == GEMM.name


def test_what_leaves_no_choice_or_no_judge_is_left_alone() -> None:
    shapes = find_shapes([SAMPLES["flatten"].graph, SAMPLES["row-moments"].graph])

    report = tune(DEVICE, shapes, Session(limits=FEW))

    assert [one.state for one in report.shapes] == [State.PLAIN, State.PLAIN]


def test_an_edited_kernel_is_tuned_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = shapes_of(SMALL)
    tune(DEVICE, shapes, Session(limits=FEW))
    monkeypatch.setattr("codl.catalog.database.digest_row", lambda row: "edited")
    monkeypatch.setattr("codl.tuner.prober.digest_row", lambda row: "edited")

    report = tune(DEVICE, shapes, Session(limits=FEW))

    assert [one.state for one in report.shapes] == [State.TUNED]


def test_a_broken_database_is_refused_before_anything_is_measured(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "kernels.json").write_text("{")

    with pytest.raises(ProfileError, match=r"kernels\.json.*remove it"):
        tune(DEVICE, shapes_of(SMALL), Session(limits=FEW))
    assert (folder / "kernels.json").read_text() == "{"


def test_a_second_tuner_is_refused(folder: Path) -> None:
    with MeasurementLog(folder / LOG_NAME), pytest.raises(ProfileError, match="another"):
        tune(DEVICE, shapes_of(SMALL), Session(limits=FEW))


def test_a_database_that_cannot_be_written_leaves_the_old_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(DEVICE, shapes_of(SMALL), Session(limits=FEW))
    before = (folder / "kernels.json").read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("codl.outputs.os.replace", fail)
    with pytest.raises(ProfileError, match="what was measured before is kept"):
        tune(DEVICE, shapes_of(replace(SMALL, outputs=40)), Session(limits=FEW))

    assert (folder / "kernels.json").read_bytes() == before
    assert count_lines(folder, "result") == 2


def test_slices_of_a_tuned_operator_have_the_bits_of_the_whole(folder: Path) -> None:
    graph, feeds, expected = build(Case(image=(17, 13), inputs=8, outputs=24))
    tune(DEVICE, find_shapes([graph]), Session(limits=FEW))
    chosen = choose(graph.nodes[0], graph, DEVICE.info, load_database(DEVICE.info))

    slices = [*cut(expected.shape, 2, [1, 8]), *cut(expected.shape, 1, [5])]
    assert_right(DEVICE, graph, feeds, expected, slices=slices, selection=chosen)


def test_loops_are_measured_once_for_all_sessions(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Loop] = []

    def measure(references: object, loops: Sequence[Loop], peaks: object) -> list[float]:
        asked.extend(loops)
        return [0.5 * max(bench().peaks.flops.values())] * len(loops)

    monkeypatch.setattr(workbench_module, "measure_loops", measure)
    tune(DEVICE, shapes_of(SMALL), Session(limits=FEW))
    tune(DEVICE, shapes_of(replace(SMALL, image=(9, 11))), Session(limits=FEW))

    assert 0 < len(asked) == len(set(asked)) == count_lines(folder, "loop")
