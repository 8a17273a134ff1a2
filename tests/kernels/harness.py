"""Runs one row of the table on one region, in memory that shows every wrong read and every wrong write.

Operands lie in buffers of exactly their region, spaced apart and surrounded by NaN; the output's surroundings
hold a canary that must survive. Numbers are judged by ONNX Runtime, slices by the bits of the whole launch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pyopencl as cl
from onnx import TensorProto, helper

from codl.catalog.choose import choose
from codl.catalog.spec import LaunchBatch, PackedArg, Parameters, Selection
from codl.devices.launch import bind_launch
from codl.devices.memory import Storage, storage_order
from codl.devices.opencl import Device
from codl.ir.graph import NO_EPILOGUE, FloatArray, Graph, Node, Shape, Tensor
from codl.ir.ops import FUNCTIONS, Activation, ActivationKind, Epilogue, Op, ResidualOrder
from codl.ir.regions import Boxes, Region, input_regions
from tests.kernels.guarded_images import CANARY, GuardedImages
from tests.oracle import OPERATOR_TOLERANCE, relative_error

GUARD = 64
"""Floats before and behind each operand that nothing may touch."""


_BOUNDS = {"alpha": -0.5, "beta": 6.0}
ACTIVATIONS = tuple(
    Activation(
        kind=kind,
        **{name: 0.7 * missing for name, missing in function.attributes.items()}
        | (_BOUNDS if kind is ActivationKind.CLIP else {}),
    )
    for kind, function in FUNCTIONS.items()
    if not function.is_partial
)
"""One of each kind that is defined for all numbers."""
PLAIN = [one for one in ACTIVATIONS if FUNCTIONS[one.kind].is_plain]
EPILOGUES = {
    f"{activation.kind}-{order}": Epilogue(activation=activation, residual=order)
    for activation, orders in [
        *((activation, tuple(ResidualOrder)) for activation in PLAIN),
        *((activation, (ResidualOrder.NONE,)) for activation in ACTIVATIONS if activation not in PLAIN),
        (ACTIVATIONS[-1], (ResidualOrder.BEFORE, ResidualOrder.AFTER)),
    ]
    for order in orders
}
"""Epilogues by a name for test ids: every activation, and most ways to add a residual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedStorage(Storage):
    """A region that begins behind the guard of its buffer."""

    @property
    def offset(self) -> int:
        """Element index of coordinate (0, ..., 0), the guard counted."""
        return GUARD - sum(b * s for b, s in zip(self.region.begin, self.strides, strict=True))


def one_node_graph(
    op: Op,
    inputs: Mapping[str, FloatArray | Shape],
    shape: Shape,
    *,
    constants: Iterable[str] = (),
    epilogue: Epilogue = NO_EPILOGUE,
) -> Graph:
    """Return the graph of a single node that writes `y`.

    Args:
        op: The operator.
        inputs: Its operands in order, a residual last: arrays, or shapes where values do not matter.
        shape: Shape of the output.
        constants: Names of the operands that are constants; these must be arrays.
        epilogue: What the node does to its values.
    """
    shapes = {name: v.shape if isinstance(v, np.ndarray) else v for name, v in inputs.items()} | {"y": shape}
    values = {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}
    return Graph(
        name="one_node",
        nodes=(Node(name="node", op=op, inputs=tuple(inputs), output="y", epilogue=epilogue),),
        inputs=tuple(name for name in inputs if name not in set(constants)),
        outputs=("y",),
        tensors={name: Tensor(name=name, shape=tuple(value)) for name, value in shapes.items()},
        constants={name: values[name] for name in constants},
    )


def run_node(
    device: Device,
    graph: Graph,
    feeds: Mapping[str, FloatArray],
    *,
    region: Region | None = None,
    gap: int = 3,
    selection: Selection | None = None,
) -> FloatArray:
    """Return the region of `y` that the node of ``graph`` computes, and assert that nothing else is written.

    Args:
        device: Where to run.
        graph: A graph of one node, or of a chain of nodes that the selected row computes at once.
        feeds: Every activation by name, whole.
        region: What to compute; everything by default.
        gap: Floats between the innermost runs of each activation; 0 stores them densely.
        selection: Row and parameters; those that `choose` finds by default.
    """
    node = graph.nodes[-1]
    region = region or Region.whole(graph.shape(node.output))
    chosen = selection or choose(node, graph, device.info)
    row, parameters = chosen.implementation, chosen.parameters
    storages: dict[str, GuardedStorage] = {}
    for name, need in _find_needs(graph, region).items():
        is_constant = name in graph.constants
        value = graph.constants[name] if is_constant else feeds[name]
        storages[name] = _place(device, need, gap=0 if is_constant else gap, in_onnx_order=is_constant)
        _fill(device, storages[name], value[tuple(map(slice, need.begin, need.end))])
    storages[node.output] = _place(device, region, gap=gap)
    _fill(device, storages[node.output], None)
    batches = row.describe(node, graph, Boxes.of([region]), device.info, parameters)
    scratch = device.allocate(max(count_scratch(batch) for batch in batches))
    cl.enqueue_copy(device.queue, scratch, np.full(scratch.size // 4, np.nan, np.float32))
    images = GuardedImages(device)
    for batch in batches:
        _launch(
            device, batch, storages, graph, scratch, images=images, source=row.source, parameters=parameters
        )
    images.assert_untouched()
    return _read_output(device, storages[node.output])


def _find_needs(graph: Graph, region: Region) -> dict[str, Region]:
    """Return what of each operand that no node computes is needed for a region of the last node's output."""
    needs = {graph.nodes[-1].output: region}
    for node in reversed(graph.nodes):
        for name, need in zip(node.inputs, input_regions(node, graph, needs.pop(node.output)), strict=True):
            needs[name] = needs[name].hull(need) if name in needs else need
    return needs


def assert_right(
    device: Device,
    graph: Graph,
    feeds: Mapping[str, FloatArray],
    reference: FloatArray,
    *,
    slices: Iterable[Region] = (),
    gap: int = 3,
    selection: Selection | None = None,
    tolerance: float = OPERATOR_TOLERANCE,
) -> None:
    """Assert that the whole node agrees with ``reference``, and each of ``slices`` with it bit for bit.

    Oclgrind interprets a launch of groups for minutes: the last slice will do there.
    """
    whole = run_node(device, graph, feeds, gap=gap, selection=selection)
    assert relative_error(whole, reference) <= tolerance
    is_slow = (
        device.info.driver == "oclgrind" and selection is not None and selection.implementation.uses_groups
    )
    for region in list(slices)[-1 if is_slow else None :]:
        part = run_node(device, graph, feeds, region=region, gap=gap, selection=selection)
        expected = np.ascontiguousarray(whole[tuple(map(slice, region.begin, region.end))])
        np.testing.assert_array_equal(part.view(np.uint32), expected.view(np.uint32), err_msg=str(region))


def cut(shape: Shape, axis: int, at: Iterable[int]) -> tuple[Region, ...]:
    """Return the slices of a tensor of ``shape`` between the positions ``at`` of one axis."""
    bounds = [0, *at, shape[axis]]
    whole = Region.whole(shape)
    return tuple(whole.cut(axis, low, high) for low, high in pairwise(bounds) if low < high)


def cut_everywhere(shape: Shape) -> tuple[Region, ...]:
    """Return slices of an image [N, C, H, W] along each axis, and a corner: thin ones, and about half."""
    slices = (
        *cut(shape, 0, [1]),
        *cut(shape, 1, [1, shape[1] // 2]),
        *cut(shape, 2, [1, shape[2] // 2]),
        *cut(shape, 3, [shape[3] // 3]),
        Region.whole(shape).cut(1, shape[1] // 3, shape[1]).cut(2, shape[2] // 2, shape[2]),
    )
    return tuple(region for region in slices if not region.is_empty)


def run_onnx(
    nodes: Sequence[onnx.NodeProto], feeds: Mapping[str, FloatArray], *, opset: int = 17
) -> FloatArray:
    """Return ONNX Runtime's value of the last node's output, nothing optimised away."""
    (result,) = nodes[-1].output
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "reference",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in feeds.items()],
            [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)],
        ),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=9,
    )
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    value: FloatArray = session.run([result], dict(feeds))[0]
    return value


def apply_epilogue(value: FloatArray, epilogue: Epilogue, residual: FloatArray | None) -> FloatArray:
    """Return what ONNX Runtime makes of ``value`` and the residual."""
    activation = epilogue.activation
    feeds = {"v": value}
    function = FUNCTIONS[activation.kind]
    act = helper.make_node(
        function.operator,
        ["in", "low", "high"] if activation.kind is ActivationKind.CLIP else ["in"],
        ["out"],
        **{name: getattr(activation, name) for name in function.attributes},
    )
    if activation.kind is ActivationKind.CLIP:
        feeds |= {
            "low": np.array(activation.alpha, np.float32),
            "high": np.array(activation.beta, np.float32),
        }
    nodes = [helper.make_node("Identity", ["v"], ["in"]), act]
    if residual is not None:
        feeds["r"] = residual
        if epilogue.residual is ResidualOrder.BEFORE:
            nodes = [helper.make_node("Add", ["v", "r"], ["in"]), act]
        else:
            nodes.append(helper.make_node("Add", ["out", "r"], ["y"]))
    return run_onnx(nodes, feeds, opset=max(17, function.opset))


def random_array(*shape: int, seed: int = 0) -> FloatArray:
    """Return standard-normal float32 values that depend on shape and seed only."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape, np.float32)


def _place(device: Device, region: Region, *, gap: int, in_onnx_order: bool = False) -> GuardedStorage:
    rank = len(region.begin)
    order = tuple(range(rank)) if in_onnx_order else storage_order(rank)
    strides, step = [0] * rank, 1
    for axis in reversed(order):
        strides[axis] = step
        step *= region.shape[axis] + (gap if axis == order[-1] else 0)
    floats = step + 2 * GUARD
    return GuardedStorage(region=region, buffer=device.allocate(floats), host=None, strides=tuple(strides))


def _view(storage: GuardedStorage, flat: FloatArray) -> FloatArray:
    """Return the storage's region inside ``flat``, the content of its buffer, in ONNX order."""
    strides = tuple(4 * stride for stride in storage.strides)
    return np.lib.stride_tricks.as_strided(flat[GUARD:], storage.region.shape, strides)


def _fill(device: Device, storage: GuardedStorage, value: FloatArray | None) -> None:
    """Write an operand with NaN around it, or canaries alone."""
    flat = np.full(storage.buffer.size // 4, CANARY if value is None else np.nan, np.float32)
    if value is not None and value.size:
        _view(storage, flat)[...] = value
    cl.enqueue_copy(device.queue, storage.buffer, flat)
    device.finish()


def _read_output(device: Device, storage: GuardedStorage) -> FloatArray:
    flat = np.empty(storage.buffer.size // 4, np.float32)
    cl.enqueue_copy(device.queue, flat, storage.buffer)
    view = _view(storage, flat)
    result = np.array(view, order="C")
    view[...] = CANARY
    touched = np.flatnonzero(flat.view(np.uint32) != np.uint32(0x7F5A5A5A))
    assert touched.size == 0, f"wrote outside its region, first at float {touched[0] - GUARD}"
    return result


def _launch(
    device: Device,
    batch: LaunchBatch,
    storages: Mapping[str, Storage],
    graph: Graph,
    scratch: Any,
    *,
    images: GuardedImages,
    source: str,
    parameters: Parameters,
) -> None:
    """Enqueue the first candidate of ``batch`` and wait for it."""

    def find_panels(packed: PackedArg, begin: int, end: int) -> Any:
        begin, end = packed.find_panels(begin, end)
        return _upload_guarded(device, packed.pack(graph.constants)[begin:end])

    launch = bind_launch(
        device,
        batch,
        tensors=[images.find(arg) or storages[arg.name] for arg in batch.tensors],
        find_panels=find_panels,
        zeros=_upload_guarded(device, np.zeros(batch.zeros, np.float32)),
        scratch=scratch,
        source=source,
        parameters=parameters,
    )
    if launch is not None:
        launch.enqueue()
        device.finish()


def count_scratch(batch: LaunchBatch) -> int:
    """Return the floats of scratch memory that the first candidate of ``batch`` takes."""
    return 0 if batch.scratch is None else int(batch.scratch[0])


def _upload_guarded(device: Device, values: FloatArray) -> Any:
    """Return a buffer of ``values`` with NaN behind them."""
    return device.upload(np.append(values.reshape(-1), np.full(GUARD, np.nan, np.float32)))
