"""What a kernel implementation is: a row of the table, its launch description and its packed constants.

Kernels see every tensor in four dimensions, *kernel dimensions* (n, h, w, c):
image tensors [N, C, H, W] as they are, matrices [R, C] as n = h = 1, w = R,
c = C. A `TensorArg` says how kernel coordinates map to a tensor's own axes;
the executor, which knows where the tensor lies, turns it into the six kernel
arguments `pointer, offset, stride_n, stride_h, stride_w, stride_c`. Where a part
of the tensor lies in an image instead, there are five (kernels/common/image.h).

Argument order of every kernel: its tensors (six or five arguments each, the output
first), its packed constants, the zero buffer, scratch memory, arrivals and local memory when
it asks for them, its scalars, and where units steal, counters and the grid's size.
Parameters in small letters are scalars of its launches; the others are defines of its program.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from codl.ir.graph import FloatArray, Graph, Node, Shape
from codl.ir.regions import Boxes, IntArray
from codl.machine import DeviceInfo, DeviceKind

_FETCHING_DRIVERS = ("intel", "pocl")
Scalar = IntArray | npt.NDArray[np.float32]
AxisMap = tuple[int, int]
"""(axis of the tensor, multiplier of its stride)"""
KernelDims = tuple[AxisMap | None, AxisMap | None, AxisMap | None, AxisMap | None]
"""For each of (n, h, w, c) the tensor axis it walks along; None has stride 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorArg:
    """One tensor operand of a kernel."""

    name: str
    dims: KernelDims
    origin: Shape
    """Coordinates, in the tensor's own axes, of the kernel coordinate (0, 0, 0, 0)."""
    image: Boxes | None = field(default=None, compare=False)
    """What of the tensor an image holds, a box a candidate; None where the tensor lies in a buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedArg:
    """One constant operand, packed as [panels, ...]; a launch reads panels [begin, end) of it."""

    key: str
    """Each constant that is packed, as its `repr`, and the layout, such as `('w',)/oihw/nr16`; equal
    keys are equal arrays."""
    pack: Callable[[Mapping[str, FloatArray]], FloatArray]
    """From the graph's constants to the packed array, leading axis = panels."""
    panel_floats: int | None = None
    """Floats of one panel; None where only packing tells."""
    is_whole: bool = False
    """Whether every launch reads the constant's one panel, whichever panels of others it reads."""

    def find_panels(self, begin: int, end: int) -> tuple[int, int]:
        """Return the first panel that a launch over panels [begin, end) reads, and where they end."""
        return (0, 1) if self.is_whole else (begin, end)

    def count_panel_floats(self, constants: Mapping[str, FloatArray]) -> int:
        """Return the floats of one panel; packs where nothing else tells."""
        if self.panel_floats is not None:
            return self.panel_floats
        packed = self.pack(constants)
        return packed.size // len(packed)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchBatch:
    """The launches of one kernel for many candidate regions; every array has one entry a candidate."""

    entry: str
    source: str | None = None
    """Kernel file, one of the row's `other_sources`, which take no parameters; None: the row's own."""
    tensors: tuple[TensorArg, ...]
    packed: tuple[PackedArg, ...] = ()
    panel_begin: IntArray | None = None
    """First panel of the packed constants that the launch reads; kernels count panels from here."""
    panel_end: IntArray | None = None
    zeros: int = 0
    """Floats in the zero buffer that the kernel reads; 0 means that it takes none."""
    scratch: IntArray | None = None
    """Floats of memory that one launch of a node hands on to the next; None: the kernel takes none."""
    keeps_scratch: bool = False
    """Whether it reads there what the node's launch before it wrote, and takes as much."""
    arrivals: IntArray | None = None
    """Zeros by which groups count themselves, and which the launch leaves as zeros; None: it takes none."""
    local: IntArray | None = None
    """Floats of local memory of a work-group; None: the kernel takes none."""
    global_size: IntArray
    """[count, 3]"""
    steals: bool = False
    """Whether the compute units of a CPU take that grid's places from each other (kernels/common/grid.h)."""
    local_size: tuple[int, int, int] = (1, 1, 1)
    scalars: Mapping[str, Scalar]
    """In the kernel's order; int32 or float32 by dtype, each [count]."""
    units: Mapping[str, IntArray]
    """Unit counts of CoDL's formulas: units of work on the busiest compute unit, by kind of work."""
    read_bytes: IntArray
    written_bytes: IntArray
    constant_bytes: IntArray | None = None
    """Of what is read, the packed constants; None where they are whole panels."""
    flops: IntArray
    """What the region's values need by the operator's definition, whatever the kernel computes."""
    busiest_flops: IntArray | None = None
    """What the busiest compute unit computes at the least: tiles that reach beyond the region and a last wave
    of few work-items count (see `busiest_share`). None where it is not counted."""

    @property
    def panel_floats(self) -> int | IntArray:
        """Floats of one panel of all packed constants together, as far as they are known without packing."""
        return sum(packed.panel_floats for packed in self.packed if packed.panel_floats is not None)


Batches = tuple[LaunchBatch, ...]
"""The launches by which a row computes a node, in order."""
Parameters = Mapping[str, int]
Describe = Callable[[Node, Graph, Boxes, DeviceInfo, Parameters], Batches]
Accepts = Callable[[Node, Graph, DeviceInfo], Parameters | None]
Fits = Callable[[Node, Graph, DeviceInfo, Parameters], bool]
OPERATOR_TOLERANCE = 1e-5
"""max|error| / max|reference| of an operator that sums its products one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """A row of the table: one kernel source with its geometry."""

    name: str
    """`<op>_<algorithm>__<memory>`: the row, its file and its entry point."""
    source: str
    """Path under kernels/."""
    other_sources: tuple[str, ...] = ()
    """Further kernel files that some of its launches are of."""
    allowed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Allowed values of each parameter."""
    accepts: Accepts
    """Parameters for a node on a device, or None when this row cannot compute the node."""
    describe: Describe
    """Launch description over arrays of output boxes (non-empty ones)."""
    fits: Fits | None = None
    """Whether parameters other than those of `accepts` may compute a node it accepts. Without it, those may
    that keep the rules of the register tile, and change nothing but MR, NR and VECTOR."""
    stacks: bool = False
    """Whether `describe` does nothing but arithmetic with sizes and parameters: it takes several operators at
    once (`codl/ir/stacking.py`), with an entry a box of what differs between them. Rows over several nodes do
    not, for only the last one is stacked."""
    cuts_panels: bool = False
    """Whether a panel of which a box has some vectors takes as long as those, so that it may be cut there."""
    inner_loop: str | None = None
    """A reference kernel that runs this row's inner loop on data next to the core: nothing is faster."""
    most_registers: int | None = None
    """Vector registers up to which the row is known to pay; None: however many."""
    uses_groups: bool = False
    """Whether work-groups share places and local memory, as codl/catalog/groups.py has it: a row for GPUs."""
    takes_onnx_order: bool = False
    """Whether its first input may lie in ONNX order, too, without costing more."""
    taken: int = 0
    """Nodes before the accepted one that the row computes too, each of them read by the next one alone."""
    tolerance: float = OPERATOR_TOLERANCE
    """max|error| / max|reference| that the row's arithmetic may have."""

    def suits(self, info: DeviceInfo) -> bool:
        """Return whether measuring the row on a device is worth the time; a database may name it in any case.

        Source:
            CPU drivers compute the place of every texel anew: over images the layers of SqueezeNet take 8 to
            190 times as long as over buffers, with Intel's driver and with PoCL.
        """
        is_known = self.most_registers is None or info.vector_registers <= self.most_registers
        is_for_gpus = self.uses_groups or self.name.endswith("__image")
        return is_known and (info.kind is not DeviceKind.CPU or not is_for_gpus)


def define_row(folder: str, name: str, accepts: Accepts, describe: Describe, **facts: Any) -> Implementation:
    """Return a row whose file has the row's name, in a folder below kernels/; ``facts`` are other fields."""
    return Implementation(
        name=name, source=f"{folder}/{name}.cl", accepts=accepts, describe=describe, **facts
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What computes a node on a device."""

    implementation: Implementation
    parameters: Parameters

    def __str__(self) -> str:
        """Return name and parameters, such as `conv2d_gemm__buffer MR=6 NR=16 VECTOR=8`."""
        values = (f"{name}={value}" for name, value in sorted(self.parameters.items()))
        return " ".join((self.implementation.name, *values))


_LEAST_STOLEN_STEPS, _STOLEN_STEPS, STOLEN_ITEMS = 1024, 4096, 16
"""Where units steal: least and most steps of K of an item, about 2 and 8 us, else the items of a unit."""


def can_steal(info: DeviceInfo) -> bool:
    """Return whether the units of a device may take work from each other: there are few, and several."""
    return info.kind is DeviceKind.CPU and info.units > 1


def stolen_steps(unit_steps: IntArray) -> IntArray:
    """Return the steps of K of an item where units steal, for as many as each unit has in all."""
    return np.clip(unit_steps // STOLEN_ITEMS, _LEAST_STOLEN_STEPS, _STOLEN_STEPS)


def can_fetch(info: DeviceInfo) -> bool:
    """Return whether a device's compiler has a way to prefetch memory."""
    return info.driver in _FETCHING_DRIVERS


def plain_arg(name: str, shape: Shape) -> TensorArg:
    """Return the operand for a tensor of rank 0 to 4 read with its natural kernel dimensions."""
    return TensorArg(name=name, dims=kernel_dims(len(shape)), origin=(0,) * len(shape))


def broadcast_arg(name: str, shape: Shape, rank: int) -> TensorArg:
    """Return the operand for a tensor broadcast to ``rank`` axes by ONNX rules: stride 0 where it repeats."""
    missing = rank - len(shape)
    dims: list[AxisMap | None] = []
    for entry in kernel_dims(rank):
        if entry is None or entry[0] < missing or shape[entry[0] - missing] == 1:
            dims.append(None)
        else:
            dims.append((entry[0] - missing, 1))
    n, h, w, c = dims
    return TensorArg(name=name, dims=(n, h, w, c), origin=(0,) * len(shape))


def kernel_dims(rank: int) -> KernelDims:
    """Return which axis of a tensor of ``rank`` each kernel dimension (n, h, w, c) walks along."""
    match rank:
        case 0:
            return None, None, None, None
        case 1:
            return None, None, None, (0, 1)
        case 2:
            return None, None, (0, 1), (1, 1)
        case 3:
            return (0, 1), None, (1, 1), (2, 1)
        case 4:
            return (0, 1), (2, 1), (3, 1), (1, 1)
    raise ValueError(f"kernel_dims: got rank {rank}, expected 0 to 4")


def kernel_box(boxes: Boxes) -> tuple[IntArray, IntArray]:
    """Return begin and end of ``boxes`` in kernel dimensions, each [count, 4]; absent ones are [0, 1)."""
    count, rank = boxes.begin.shape
    begin, end = np.zeros((count, 4), np.int64), np.ones((count, 4), np.int64)
    for place, entry in enumerate(kernel_dims(rank)):
        if entry is not None:
            begin[:, place], end[:, place] = boxes.begin[:, entry[0]], boxes.end[:, entry[0]]
    return begin, end


def ceil_div(value: IntArray, divisor: int | IntArray) -> IntArray:
    """Return ``value / divisor`` rounded up, elementwise."""
    return np.asarray(-(-value // divisor))


def spread(items: IntArray, units: int) -> IntArray:
    """Return how many of ``items`` equal work-items the busiest of ``units`` compute units gets."""
    return ceil_div(items, max(1, units))


def busiest_share(item: IntArray | int, *, full_items: IntArray, units: int) -> IntArray:
    """Return what the busiest compute unit does at the least: some unit gets a full share of whole items.

    Args:
        item: Work of a full item.
        full_items: Work-items that are not cut short by an edge.
        units: Compute units.
    """
    return np.asarray(item * spread(full_items, units))
