"""Rewrites a graph before fusion, so that layers which compute along the last axis agree on the axes before.

Such layers give every row the same values, however rows are counted: [1, 197, 768], [197, 1, 768] and
[197, 768] are one tensor to them. Where networks reshape between such forms the layers take one of them, and
the reshapes among them vanish; and products over [1, 56, 56, 96] become products over [1, 3136, 96].
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from codl.frontend.layouts import Rewriting
from codl.ir.graph import NO_EPILOGUE, Graph, Node, Shape
from codl.ir.ops import (
    Attention,
    Binary,
    Concat,
    HostCall,
    LayerNorm,
    MatMul,
    Op,
    Reshape,
    Slice,
    Softmax,
    Transpose,
    Unary,
)

_IMAGE_RANK = 4
_COPIES_OF_PRODUCT = 2
"""Copies that a product over four axes is worth: rows do not lie in one piece there, as in images."""
_FREE = (Binary, Concat, LayerNorm, MatMul, Reshape, Slice, Softmax, Transpose, Unary)
"""Operators that may read or write tensors of four axes next to layers whose form changes: no images."""


def unify(graph: Graph) -> Graph:
    """Return the same network with fewer reshapes between layers that compute along the last axis."""
    return _Unifying(graph).finish()


@dataclass(slots=True)
class _Group:
    """Layers that lead to each other, and their tensors."""

    nodes: list[Node] = field(default_factory=list)
    tensors: dict[str, None] = field(default_factory=dict)
    form: Shape | None = None
    """Axes before the last that all its tensors are to have; None where they stay."""


class _Unifying(Rewriting):
    """Chooses the leading axes of groups of layers, and writes their nodes anew."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._layers = {
            node.output: names for node in graph.nodes if (names := tuple(_find_tensors(node, graph)))
        }
        """Output of a layer -> the tensors that have its rows."""
        self._group_of: dict[str, _Group] = {}
        self._forms: dict[str, str] = {}
        """Tensor of a group that changes -> the one that takes its place there."""
        self._written = {*graph.inputs}

    def finish(self) -> Graph:
        """Return the graph."""
        self._find_groups()
        groups = {id(group): group for group in self._group_of.values()}
        for group in groups.values():
            group.form = self._choose(group)
        if all(group.form is None for group in groups.values()):
            return self.graph
        for node in self.graph.nodes:
            self._take_node(node)
            if node.output in self.graph.outputs:
                self._restore(node.output)
        return self.close()

    def _find_groups(self) -> None:
        for node in self.graph.nodes:
            names = self._layers.get(node.output, ())
            found = {id(group): group for name in names if (group := self._group_of.get(name))}
            groups = sorted(found.values(), key=lambda group: -len(group.tensors)) or [_Group()]
            first, *others = groups
            for group in others:
                first.nodes += group.nodes
                first.tensors |= group.tensors
                self._group_of.update(dict.fromkeys(group.tensors, first))
            if names:
                first.nodes.append(node)
                first.tensors.update(dict.fromkeys(names))
                self._group_of.update(dict.fromkeys(names, first))

    def _choose(self, group: _Group) -> Shape | None:
        """Return the leading axes with which a group needs the fewest copies; None where they are as good."""
        copies = sum(self._count_own_copies(node) for node in group.nodes)
        if copies == 0 or self._has_images(group):
            return None
        leads = dict.fromkeys(self.shape(name)[:-1] for name in group.tensors)
        forms = [lead if len(lead) < _IMAGE_RANK - 1 else (lead[0], prod(lead[1:])) for lead in leads]
        fitting = [form for form in dict.fromkeys(forms) if _fits_attention(group, form, self.graph)]
        best = min(fitting, key=lambda form: self._count_copies(group, form), default=None)
        return best if best is not None and self._count_copies(group, best) < copies else None

    def _count_own_copies(self, node: Node) -> int:
        """Return the copies that a layer is, or that it costs as much as, in its own form."""
        shape = self.shape(node.output)
        if isinstance(node.op, Reshape):
            return int(shape != self.shape(node.inputs[0]))
        return _COPIES_OF_PRODUCT if isinstance(node.op, MatMul) and len(shape) == _IMAGE_RANK else 0

    def _has_images(self, group: _Group) -> bool:
        """Return whether a tensor of a group is an image to a node outside."""
        return any(
            not isinstance(node.op, _FREE)
            for name in group.tensors
            if len(self.shape(name)) == _IMAGE_RANK
            for node in self._find_neighbours(name)
        )

    def _find_neighbours(self, name: str) -> Iterator[Node]:
        producer = self.graph.producers.get(name)
        for node in (*([producer] if producer else []), *self.graph.consumers[name]):
            if node.output not in self._layers:
                yield node

    def _count_copies(self, group: _Group, form: Shape) -> int:
        """Return how many tensors of a group with these leading axes need a reshape at its border."""
        count = 0
        for name in group.tensors:
            if self.shape(name)[:-1] != form:
                others = [node for node in self._find_neighbours(name) if not isinstance(node.op, Reshape)]
                readers = [node for node in others if node.output != name]
                count += len(others) > len(readers) or name in self.graph.inputs
                count += bool(readers) or name in self.graph.outputs
        return count

    def _take_node(self, node: Node) -> None:
        group = self._group_of.get(node.output)
        form = group.form if group is not None else None
        is_layer = node.output in self._layers and form is not None
        if is_layer and isinstance(node.op, Reshape):
            assert form is not None
            self._forms[node.output] = self._convert(node.inputs[0], form)
            return
        own = form if is_layer else None
        inputs, op = tuple(self._take_input(node, name, own) for name in node.inputs), node.op
        if form is None or not (is_layer or isinstance(op, Reshape)):
            self._append(replace(node, inputs=inputs))
            return
        shape = (*form, self.shape(node.output)[-1])
        if is_layer:
            op = _convert_op(op, form, own=self.shape(node.output))
        if shape == self.shape(node.output):
            self._append(replace(node, inputs=inputs, op=op))
            self._forms[node.output] = node.output
        else:
            self._forms[node.output] = self.add(op, inputs, f"{node.output}/rows", shape, node)

    def _append(self, node: Node) -> None:
        self.nodes.append(node)
        self._written.add(node.output)

    def _take_input(self, node: Node, name: str, form: Shape | None) -> str:
        """Return what a node reads in place of a tensor."""
        if form is None:
            is_moved = isinstance(node.op, Reshape) and name in self._forms
            return self._forms[name] if is_moved else self._restore(name)
        if name in self.constants:
            return self._convert_constant(node, name, form)
        return self._convert(name, form) if name in self._layers[node.output] else self._restore(name)

    def _convert(self, name: str, form: Shape) -> str:
        """Return a tensor with the leading axes of its group."""
        if name not in self._forms:
            shape = (*form, self.shape(name)[-1])
            is_same = shape == self.shape(name)
            self._forms[name] = name if is_same else self.add(Reshape(), (name,), f"{name}/rows", shape)
        return self._forms[name]

    def _convert_constant(self, node: Node, name: str, form: Shape) -> str:
        """Return a constant as an operand of a layer; those of other operators have no leading axes."""
        value, shape = self.constants[name], self.shape(node.output)
        if not isinstance(node.op, Binary) or value.ndim < 2:
            return name
        if shape[:-1] == form:
            return name
        leading = () if prod(value.shape[:-1]) == 1 else form
        return self.add_constant(f"{name}/rows", value.reshape(*leading, value.shape[-1]))

    def _restore(self, name: str) -> str:
        """Return a tensor as the network has it."""
        found = self._forms.get(name)
        if found is None or name in self._written:
            return name
        is_same = self.shape(found) == self.shape(name)
        if is_same and name not in self.graph.outputs:
            return found
        op: Op = Unary() if is_same else Reshape()
        title = self.name_node(f"{name}/restored")
        self._append(Node(name=title, op=op, inputs=(found,), output=name, epilogue=NO_EPILOGUE))
        return name


def _find_tensors(node: Node, graph: Graph) -> Iterator[str]:
    """Yield the tensors, the output last, whose rows a node takes one by one; none where it does not."""
    shape = graph.shape(node.output)
    if isinstance(node.op, HostCall) or node.residual is not None or len(shape) < 2:
        return
    x, *others = node.inputs
    if x in graph.constants and not isinstance(node.op, Binary):
        return
    before, last = graph.shape(x), len(shape) - 1
    names: Sequence[str] = (x,)
    match node.op:
        case Unary():
            is_layer = True
        case LayerNorm(axis=axis) | Softmax(axis=axis):
            is_layer = axis == last
        case MatMul():
            is_layer = others[0] in graph.constants and len(graph.shape(others[0])) == 2
        case Slice(begin=begin, step=step):
            is_layer = before[:-1] == shape[:-1] and not any(begin[:-1]) and min(step[:-1]) > 0
        case Reshape():
            is_layer = len(before) > 1 and before[-1] == shape[-1]
        case Concat(axis=axis):
            names = node.inputs
            is_layer = axis == last and not any(name in graph.constants for name in names)
        case Binary():
            names = [name for name in node.inputs if name not in graph.constants]
            is_layer = bool(names) and all(_takes_rows(name, shape, graph) for name in node.inputs)
        case Attention():
            names = node.inputs[:3]
            is_layer = len({graph.shape(name)[:2] for name in names}) == 1
        case _:
            is_layer = False
    if is_layer:
        yield from (*names, node.output)


def _takes_rows(name: str, shape: Shape, graph: Graph) -> bool:
    """Return whether an operand has a value for each element of the output, or the same ones for each row."""
    own = graph.shape(name)
    if name not in graph.constants:
        return own == shape
    return len(own) <= len(shape) and (prod(own[:-1]) == 1 or own[:-1] == shape[:-1])


def _convert_op(op: Op, form: Shape, *, own: Shape) -> Op:
    """Return the operator of a layer, whose output has its own shape, over tensors of another form."""
    axis = len(form)
    match op:
        case LayerNorm() | Softmax() | Concat():
            return replace(op, axis=axis)
        case Slice():
            return Slice(begin=(*(0,) * axis, op.begin[-1]), step=(*(1,) * axis, op.step[-1]))
        case Attention() if form != own[:-1]:
            return replace(op, row_axis=op.batch_axis)
        case _:
            return op


def _fits_attention(group: _Group, form: Shape, graph: Graph) -> bool:
    """Return whether every attention can have these axes: its own ones, or turned ones of one sequence."""
    for node in group.nodes:
        if isinstance(node.op, Attention):
            own = graph.shape(node.output)[:2]
            turned = own[::-1] if own[node.op.batch_axis] == 1 else own
            if form not in (own, turned):
                return False
    return True
