"""The table's own laws: files, names, defaults, parameters."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codl.assets import kernels_dir
from codl.catalog.choose import choose
from codl.catalog.source import read_source
from codl.catalog.spec import Implementation
from codl.catalog.table import IMPLEMENTATIONS, PAIRS
from codl.devices.drivers import OpenedDevice
from codl.devices.inner_loops import LOOPS
from codl.devices.opencl import open_device
from codl.ir.boxes import Boxes
from codl.ir.graph import Graph
from codl.machine import DeviceKind
from tests.catalog.nodes import NODES, Sample, device_info
from tests.ir.every_kind import EVERY_KIND

ROWS = (*IMPLEMENTATIONS, *PAIRS)
EACH_ROW = pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])


def test_row_names_are_unique() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)


def test_rows_over_several_nodes_say_how_many_and_do_not_stack() -> None:
    assert all(row.taken > 0 and not row.stacks for row in PAIRS)
    assert not any(row.taken for row in IMPLEMENTATIONS)


@EACH_ROW
def test_file_entry_point_and_row_share_one_name(row: Implementation) -> None:
    assert (kernels_dir() / row.source).is_file()
    assert row.source.rsplit("/", 1)[1] == f"{row.name}.cl"
    assert re.fullmatch(r"[a-z0-9_]+__[a-z]+", row.name)
    source = read_source(row.source)
    for name in re.findall(r"^#define ENTRY (\w+)$", source, re.MULTILINE):  # what kernels with one body set
        source = re.sub(r"\bENTRY\b", name, source)
    source = re.sub(r"^#define (?:.*\\\n)*.*\n", "", source, flags=re.MULTILINE)
    entries = re.findall(r"__kernel[^{]*?\bvoid\s+(\w+)\s*\(|^GRID_KERNEL\((\w+),", source, re.MULTILINE)
    assert ["".join(entry) for entry in entries] == [row.name]


@EACH_ROW
def test_every_parameter_has_an_allowed_default(row: Implementation) -> None:
    defaults = re.findall(r"#ifndef (\w+)\n#define \1 (\w+)\n#endif", read_source(row.source))
    values: dict[str, str] = dict(defaults)
    for name, allowed in row.allowed.items():
        if name.islower():  # an argument of launches
            continue
        default = values[name]
        assert int(values.get(default, default)) in allowed


@EACH_ROW
def test_head_names_the_allowed_values_of_every_parameter(row: Implementation) -> None:
    head = (
        (kernels_dir() / row.source)
        .read_text(encoding="utf-8")
        .split("// Parameters  ")[1]
        .split("// Tested by")[0]
    )
    told = re.findall(r"\b([A-Z]+)((?: \d+)+)", re.sub(r"\n// +", " ", head))
    defines = {name: values for name, values in row.allowed.items() if name.isupper()}
    assert {name: tuple(map(int, values.split())) for name, values in told} == defines


@EACH_ROW
def test_work_group_size_is_fixed(row: Implementation) -> None:
    assert "reqd_work_group_size" in read_source(row.source)


@EACH_ROW
def test_compiles_alone(row: Implementation, devices: tuple[OpenedDevice, ...]) -> None:
    for opened in devices:
        open_device(opened.info.name).kernel(row.source, row.name, {})


def test_every_kernel_file_has_a_row() -> None:
    files = {path.relative_to(kernels_dir()).as_posix() for path in kernels_dir().rglob("*.cl")}
    references = {file for file in files if file.startswith("reference/")}
    meetings = {file for file in files if file.startswith(("meeting/", "walk/"))}
    used = {source for row in ROWS for source in (row.source, *row.other_sources)}
    assert files - references - meetings == used
    assert {row.inner_loop for row in IMPLEMENTATIONS if row.inner_loop} <= references


@pytest.mark.parametrize("row", [row for row in IMPLEMENTATIONS if row.inner_loop], ids=lambda row: row.name)
def test_an_inner_loop_is_built_with_the_rows_parameters(row: Implementation) -> None:
    assert row.inner_loop is not None

    assert set(LOOPS[row.inner_loop]) <= set(row.allowed)


@pytest.mark.parametrize("vector_width", [1, 4, 8, 16])
@pytest.mark.parametrize("sample", NODES.values(), ids=NODES)
def test_chosen_parameters_are_allowed(sample: Sample, vector_width: int) -> None:
    selection = choose(sample.node, sample.graph, device_info(vector_width))
    assert set(selection.parameters) == set(selection.implementation.allowed)
    for name, value in selection.parameters.items():
        assert value in selection.implementation.allowed[name]


class _Noted(dict[str, Any]):
    """Constants that note which of them are read."""

    read: set[str]

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)


@pytest.mark.parametrize("kind", DeviceKind)
def test_packed_constants_name_what_they_are_packed_from(kind: DeviceKind) -> None:
    info, packed = replace(device_info(8), kind=kind), set()

    @given(st.one_of(sample_graphs()))
    @settings(max_examples=300, deadline=None, derandomize=True)
    def check(graph: Graph) -> None:
        node = graph.nodes[0]
        boxes = Boxes.whole(graph.shape(node.output), 1)
        for row in IMPLEMENTATIONS:
            parameters = row.accepts(node, graph, info)
            if parameters is None or row.taken:
                continue
            for arg in (
                arg for one in row.describe(node, graph, boxes, info, parameters) for arg in one.packed
            ):
                constants = _Noted(graph.constants)
                constants.read = set()
                arg.pack(constants)
                packed.add(row.name)
                assert all(repr(name) in arg.key for name in constants.read), arg.key

    check()
    assert len(packed) > 5


def sample_graphs() -> list[st.SearchStrategy[Graph]]:
    """Return graphs of one node of every kind, all inputs but the first one constants."""
    return [
        *[st.just(sample.graph) for sample in NODES.values()],
        *[strategy.map(_make_constant) for strategy in EVERY_KIND.values()],
    ]


def _make_constant(graph: Graph) -> Graph:
    first, *others = graph.inputs
    constants = {name: np.ones(graph.shape(name), np.float32) for name in others}
    return replace(graph, inputs=(first,), constants=constants)
