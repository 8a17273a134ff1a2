"""Finds attention: two matrix products around a softmax, with what splits heads off and joins them again."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, prod

from codl.frontend.draft import Draft
from codl.frontend.masks import iterate_sums
from codl.frontend.onnx_node import OnnxNode
from codl.frontend.strides import MOVING, Strides, Values, follow, iterate_scales
from codl.frontend.structure import find_reads
from codl.ir.graph import FloatArray, Shape
from codl.ir.ops import MOST_DEPTH, Attention, Reshape, Transpose

_MOST_MOVES = 12
"""Nodes that are looked through between an operand and the tensor whose rows it reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """An operand as rows of a tensor: heads next to each other along its last axis."""

    source: str
    shape: Shape
    """[batch, rows, channels], or [rows, batch, channels]."""
    begin: int


_Operands = tuple[_Rows, _Rows, _Rows]
"""Query, key and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Nodes of a model that are one `Attention`."""

    op: Attention
    operands: _Operands
    mask: str | FloatArray | None
    """A tensor, or the sum of several constants."""
    shape: Shape
    """Of what the operator returns."""
    split: Shape
    """Of that with heads split off, where `last` reads them in another order; empty where it does not."""
    order: tuple[int, ...]
    """Of the axes of ``split``, as `last` has them."""
    last: OnnxNode
    """The node whose output is the attention's."""
    name: str

    @property
    def scores(self) -> Shape:
        """Shape of the weights of values: [batch, heads, rows, keys]."""
        query, key, _ = self.operands
        axis = self.op.row_axis
        return query.shape[self.op.batch_axis], self.op.heads, query.shape[axis], key.shape[axis]

    @property
    def reads(self) -> tuple[str, ...]:
        """The tensors of the model that it reads."""
        names = [rows.source for rows in self.operands]
        return (*names, self.mask) if isinstance(self.mask, str) else tuple(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scores:
    """What leads to the weights of values."""

    query: str
    key: str
    """Transposed."""
    mask: str | FloatArray | None
    scale: float


class Finder:
    """Finds attention among the nodes of a model.

    Args:
        nodes: All nodes, in topological order.
        shapes: Shapes as far as they are known.
        values: The model's constants.
        outputs: Outputs of the model.
        fits: Whether devices can have a tensor.
    """

    def __init__(
        self,
        nodes: Sequence[OnnxNode],
        shapes: Mapping[str, Shape],
        values: Values,
        *,
        outputs: Sequence[str],
        fits: Callable[[str], bool],
    ) -> None:
        self._nodes, self._shapes, self._values, self._fits = nodes, shapes, values, fits
        self._outputs = outputs
        self._producers = {name: node for node in nodes for name in node.outputs}
        self._reads = {id(node): list(find_reads(node.proto)) for node in nodes}
        self._readers: dict[str, list[OnnxNode]] = {}
        for node in nodes:
            for name in self._reads[id(node)]:
                self._readers.setdefault(name, []).append(node)

    def find_all(self) -> list[Found]:
        """Return every attention."""
        if not any(node.op_type == "Softmax" for node in self._nodes):
            return []
        return [found for node in self._nodes if (found := self._read(node)) is not None]

    def find_hidden(self, found: Sequence[Found]) -> set[str]:
        """Return the outputs of the nodes that nothing needs but what is found."""
        reads_of = {one.last.output: one.reads for one in found}
        before, after = self._find_needed({}), self._find_needed(reads_of)
        return {node.output for node in self._nodes if id(node) in before - after}

    def _find_needed(self, reads_of: Mapping[str, Sequence[str]]) -> set[int]:
        needed, kept = Counter(self._outputs), set()
        for node in reversed(self._nodes):
            if any(needed[name] for name in node.outputs):
                kept.add(id(node))
                needed.update(reads_of.get(node.output, self._reads[id(node)]))
        return kept

    def _read(self, product: OnnxNode) -> Found | None:
        """Return the attention whose second product is a node."""
        softmax = self._sole(product.inputs[0]) if product.op_type == "MatMul" else None
        scores = self._read_scores(softmax) if softmax is not None and softmax.op_type == "Softmax" else None
        if scores is None:
            return None
        names = (scores.query, scores.key, product.inputs[1])
        if any(len(self._shapes.get(name, ())) not in (3, 4) for name in (*names, product.output)):
            return None
        whole = [(1,) * (4 - len(self._shapes[name])) + self._shapes[name] for name in names]
        (batch, heads, rows, depth), (*_, keys), (*_, width) = whole
        if whole != [(batch, heads, rows, depth), (batch, heads, depth, keys), (batch, heads, keys, width)]:
            return None
        if max(depth, width) > MOST_DEPTH:
            return None
        is_joint, matrices = len(self._shapes[names[0]]) == 3, heads
        batches = [n for n in range(1, heads + 1) if heads % n == 0] if is_joint else [batch]
        options = []
        for batch in batches:
            heads = matrices // batch if is_joint else matrices
            if not self._suits(scores.mask, (batch, heads, rows, keys)):
                continue
            splits = ((batch, heads, rows, depth), (batch, heads, keys, depth), (batch, heads, keys, width))
            options += [
                option
                for row_axis in (1, 0)
                if (option := self._find_operands(names, splits, row_axis, scores)) is not None
            ]
        if not options:
            return None
        op, operands = min(options, key=lambda option: self._count_copies(option[1]))
        batch, rows = (operands[0].shape[axis] for axis in (op.batch_axis, op.row_axis))
        return self._finish(op, operands, scores.mask, product, batch=batch, rows=rows)

    def _count_copies(self, operands: _Operands) -> int:
        """Return how many tensors must be copied to have the axes of rows."""
        return len({rows.source for rows in operands if rows.shape != self._shapes[rows.source]})

    def _read_scores(self, softmax: OnnxNode) -> _Scores | None:
        """Return what a softmax along the last axis weighs: a product, perhaps scaled and with a mask."""
        shape = self._shapes.get(softmax.inputs[0])
        axis = softmax.integer("axis", -1 if softmax.opset >= 13 else 1)
        if shape is None or axis not in (-1, len(shape) - 1):
            return None
        node, scale = self._sole(softmax.inputs[0]), 1.0
        mask: str | FloatArray | None = None
        for x, added in self._iterate_masks(softmax.inputs[0], shape):
            before = self._sole(x)
            if (
                before is not None
                and before.op_type in ("MatMul", "Mul", "Div")
                and self._shapes.get(x) == shape
            ):
                node, mask = before, added
                break
        for _ in range(2):
            for x, factor in iterate_scales(node, self._values) if node is not None else ():
                if self._shapes.get(x) == shape:
                    node, scale = self._sole(x), scale * factor
                    break
        if node is None or node.op_type != "MatMul":
            return None
        return _Scores(query=node.inputs[0], key=node.inputs[1], mask=mask, scale=scale)

    def _iterate_masks(self, name: str, shape: Shape) -> Iterator[tuple[str, str | FloatArray]]:
        """Yield the tensors that scores of a shape are sums of, each with what is added to it."""
        node = self._sole(name)
        if node is not None and node.op_type == "Add":
            yield from zip(node.inputs, node.inputs[::-1], strict=True)
        yield from iterate_sums(name, shape, sole=self._sole, shapes=self._shapes, values=self._values)

    def _suits(self, mask: str | FloatArray | None, scores: Shape) -> bool:
        """Return whether a mask, if there is one, is added to scores [batch, heads, rows, keys] as it is."""
        if not isinstance(mask, str):
            return True
        shape = self._shapes.get(mask)
        if shape is None or len(shape) > 4 or not self._fits(mask):
            return False
        tail = scores[4 - len(shape) :]
        return all(m in (1, n) for m, n in zip(shape, tail, strict=True))

    def _find_operands(
        self, names: Sequence[str], splits: Sequence[Shape], row_axis: int, scores: _Scores
    ) -> tuple[Attention, _Operands] | None:
        """Return an attention whose query, key and value [batch, heads, rows, size] are rows, with these."""
        found: list[_Rows] = []
        total = scores.scale
        for place, (name, split) in enumerate(zip(names, splits, strict=True)):
            fitting = (
                (rows, scale)
                for source, places, scale in self._iterate_views(name)
                if place < 2 or scale == 1.0
                if (rows := self._fit(source, places, split, row_axis, is_turned=place == 1)) is not None
            )
            rows, scale = next(fitting, (None, 1.0))
            if rows is None or not isfinite(total := total * scale):
                return None
            found.append(rows)
        query, key, value = found
        op = Attention(
            heads=splits[0][1],
            depth=splits[0][3],
            width=splits[2][3],
            scale=total,
            begins=(query.begin, key.begin, value.begin),
            row_axis=row_axis,
            has_mask=scores.mask is not None,
        )
        return op, (query, key, value)

    def _iterate_views(self, name: str, left: int = _MOST_MOVES) -> Iterator[tuple[str, Strides, float]]:
        """Yield the tensors that a tensor shows elements of, the farthest first, where, and a factor."""
        node, shape = self._producers.get(name), self._shapes.get(name)
        if shape is None:
            return
        if node is not None and left:
            for x, factor in iterate_scales(node, self._values):
                if self._shapes.get(x) == shape:
                    for source, places, scale in self._iterate_views(x, left - 1):
                        yield source, places, scale * factor
        if node is not None and left and node.op_type in MOVING:
            for source, places, scale in self._iterate_views(node.inputs[0], left - 1):
                moved = follow(node, places, self._shapes, self._values, name)
                if moved is not None:
                    yield source, moved, scale
        if self._fits(name):
            yield name, Strides.of(shape), 1.0

    def _fit(
        self, source: str, places: Strides, split: Shape, row_axis: int, *, is_turned: bool
    ) -> _Rows | None:
        """Return an operand [batch, heads, rows, size] as rows of its source, if heads are neighbours."""
        shape, (batch, heads, rows, size) = self._shapes[source], split
        if not 2 <= len(shape) <= 3:
            return None
        if is_turned:
            rank = len(places.shape)
            places = places.turn((*range(rank - 2), rank - 1, rank - 2))
        seen, channels = places.reshape(split), shape[-1]
        if seen is None or seen.begin + heads * size > channels:
            return None
        whole = (batch, rows, channels) if row_axis == 1 else (rows, batch, channels)
        steps = (batch, 1) if row_axis == 0 else (1, rows)
        expected = (steps[1] * channels, size, steps[0] * channels, 1)
        lies_so = all(n == 1 or s == e for n, s, e in zip(split, seen.steps, expected, strict=True))
        if not lies_so or prod(whole) != prod(shape):
            return None
        return _Rows(source=source, shape=whole, begin=seen.begin)

    def _finish(
        self,
        op: Attention,
        operands: _Operands,
        mask: str | FloatArray | None,
        product: OnnxNode,
        *,
        batch: int,
        rows: int,
    ) -> Found:
        """Return the attention with the nodes behind it that join heads."""
        order = (1, 0) if op.row_axis == 0 else (0, 1)
        lengths = [(batch, rows)[place] for place in order]
        split = (*lengths, op.heads, op.width)
        turned = (order.index(0), 2, order.index(1), 3)
        places = Strides.of(split).turn(turned).reshape(self._shapes[product.output])
        last, node = None, product
        while places is not None and prod(places.shape) == prod(split):
            if places.is_dense and (last is None or len(self._shapes[node.output]) <= 3):
                last = node
            readers = self._readers.get(node.output, [])
            if len(readers) != 1 or readers[0].inputs[:1] != (node.output,) or node.output in self._outputs:
                break
            node = readers[0]
            places = follow(node, places, self._shapes, self._values, node.output)
        return Found(
            op=op,
            operands=operands,
            mask=mask,
            shape=(*lengths, op.heads * op.width),
            split=() if last else split,
            order=() if last else turned,
            last=last or product,
            name=product.name,
        )

    def _sole(self, name: str) -> OnnxNode | None:
        """Return the node that writes a tensor, if one node reads it once and it is no output."""
        is_sole = len(self._readers.get(name, ())) == 1 and name not in self._outputs
        return self._producers.get(name) if is_sole else None


def add_attention(draft: Draft, found: Found) -> None:
    """Add an attention, and what brings its result in the order of the model."""
    node = found.last
    known: dict[str, str] = {}
    for rows in found.operands:
        x = draft.operand(rows.source, node=node)
        if rows.source not in known and draft.tensors[x].shape != rows.shape:
            x = draft.reshape(x, rows.shape, hint=f"{rows.source}/rows", name=f"{rows.source}/rows")
        known.setdefault(rows.source, x)
    inputs = [known[rows.source] for rows in found.operands]
    if isinstance(found.mask, str):
        inputs.append(draft.operand(found.mask, node=node))
    elif found.mask is not None:
        inputs.append(draft.add_constant(f"{found.name}/mask", found.mask.reshape(found.scores)))
    shape = draft.shape(node.output, node=node)
    if not found.order:
        draft.add_result(found.op, inputs, node, shape=found.shape, result=shape, word="attention")
        return
    joined = draft.fresh_name(f"{node.output}/attention")
    draft.add_node(found.op, inputs, joined, shape=found.shape, name=found.name)
    split = draft.reshape(joined, found.split, hint=f"{node.output}/split", name=f"{found.name}/split")
    turned = tuple(found.split[axis] for axis in found.order)
    is_last = turned == shape
    output = node.output if is_last else draft.fresh_name(f"{node.output}/turned")
    draft.add_node(Transpose(order=found.order), (split,), output, shape=turned, name=f"{found.name}/turned")
    if not is_last:
        draft.add_node(Reshape(), (output,), node.output, shape=shape, name=f"{found.name}/joined")
