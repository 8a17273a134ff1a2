"""Parts of a model that ONNX Runtime runs: which nodes go together, and the small models that they become."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx
from google.protobuf.message import EncodeError
from onnx import numpy_helper

from codl.errors import UnsupportedError
from codl.frontend.draft import Draft, HostNode
from codl.frontend.reader import OLDEST_OPSET, find_opset
from codl.frontend.structure import find_reads
from codl.frontend.types import make_value_type
from codl.ir.graph import Graph, HostModel, Node, Tensor
from codl.ir.ops import HostCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Arranged:
    """Nodes of the graph in topological order, and the models that the host calls among them run."""

    nodes: tuple[Node, ...]
    host_models: Mapping[str, HostModel]


@dataclass(slots=True, kw_only=True)
class _Item:
    """A node on its way into the graph."""

    node: Node | HostNode
    reads: Mapping[str, str]
    """Tensor as the node names it -> the tensor that stands for it; constants are left out."""
    writes: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class _Part:
    """A host model in the making."""

    group: str
    items: list[_Item]
    outputs: list[str] = field(default_factory=list)


def arrange(draft: Draft, *, model: Any, inputs: Sequence[str], outputs: Sequence[str]) -> Arranged:
    """Return a draft's nodes with those on the host gathered in as few host calls as possible.

    Nodes of kernels run as early as they can; what the host can run then becomes one call, and so on.
    So no path leads out of a call and back into it, and devices work while others wait for the host.

    Raises:
        UnsupportedError: The weights of a host call are too large for an ONNX message.
    """
    items = [_make_item(draft, node) for node in draft.nodes]
    readers: dict[str, list[_Item]] = {}
    for item in items:
        for name in item.reads.values():
            readers.setdefault(name, []).append(item)
    nodes: list[Node] = []
    parts: dict[str, HostModel] = {}
    ends = frozenset(outputs)
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    weights |= {tensor.values.name: tensor for tensor in model.graph.sparse_initializer}
    for phase in _find_phases(items, inputs):
        device = [item.node for item in phase if isinstance(item.node, Node)]
        nodes += device
        if device or not phase:
            continue
        part = _Part(group=f"host/{len(parts) + 1}", items=phase)
        inside = {id(item) for item in phase}
        part.outputs = [
            name
            for item in phase
            for name in item.writes
            if name in ends or any(id(reader) not in inside for reader in readers.get(name, ()))
        ]
        if not part.outputs:
            continue
        reads = {name: stands for item in phase for name, stands in item.reads.items()}
        own = {name for item in phase for name in item.writes}
        outer = {name: stands for name, stands in reads.items() if stands not in own}
        parts[part.group] = _make_model(draft, part, outer, model, weights)
        nodes += _make_calls(draft, part, tuple(outer.values()))
    return Arranged(nodes=tuple(nodes), host_models=parts)


def _make_item(draft: Draft, node: Node | HostNode) -> _Item:
    if isinstance(node, Node):
        reads = {name: name for name in node.inputs if name not in draft.constants}
        return _Item(node=node, reads=reads, writes=(node.output,))
    given = {name: draft.aliases.get(name, name) for name in find_reads(node.node.proto)}
    reads = {
        name: stands
        for name, stands in given.items()
        if name not in draft.given and stands not in draft.constants
    }
    return _Item(node=node, reads=reads, writes=node.node.outputs)


def _find_phases(items: Sequence[_Item], inputs: Sequence[str]) -> list[list[_Item]]:
    """Return the items in turns: all that devices can run, all that the host can run, and so on.

    An item runs in the turn of its kind in which the last of what it reads is written, or in the next one.
    """
    turns = dict.fromkeys(inputs, 0)
    phases: list[list[_Item]] = [[], []]
    for item in items:
        turn = max((turns[stands] for stands in item.reads.values()), default=0)
        turn += turn % 2 != int(isinstance(item.node, HostNode))
        turns.update(dict.fromkeys(item.writes, turn))
        while turn >= len(phases):
            phases.append([])
        phases[turn].append(item)
    return phases


def _make_calls(draft: Draft, part: _Part, inputs: tuple[str, ...]) -> list[Node]:
    """Return the nodes of a host call, one for each output; their tensors enter the draft."""
    writers = {name: item.node for item in part.items for name in item.writes}
    calls = []
    for index, name in enumerate(part.outputs):
        writer = writers[name]
        assert isinstance(writer, HostNode)
        is_alone = len(writer.node.outputs) == 1
        title = draft.unique_node_name(writer.node.name if is_alone else f"{writer.node.name}/{name}")
        op = HostCall(group=part.group, index=index)
        calls.append(Node(name=title, op=op, inputs=inputs, output=name))
    return calls


def _make_model(
    draft: Draft, part: _Part, outer: Mapping[str, str], model: Any, weights: Mapping[str, Any]
) -> HostModel:
    """Return the small model of a part: its nodes, its weights, and what it reads from outside as inputs."""
    nodes = [item.node for item in part.items if isinstance(item.node, HostNode)]
    own = {name for item in part.items for name in item.writes}
    wanted = dict.fromkeys(name for node in nodes for name in find_reads(node.node.proto))
    small = onnx.ModelProto(ir_version=model.ir_version, functions=model.functions)
    small.opset_import.extend(model.opset_import)
    if find_opset(model) == 0:
        small.opset_import.append(onnx.helper.make_opsetid("", OLDEST_OPSET))  # for copies
    graph = small.graph
    graph.name = part.group
    graph.node.extend(_add_copies(part))
    graph.input.extend(_describe(draft, name) for name in outer)
    graph.output.extend(_describe(draft, name) for name in part.outputs)
    for name in wanted:
        if name in weights:
            tensor = weights[name]
            is_sparse = isinstance(tensor, onnx.SparseTensorProto)
            (graph.sparse_initializer if is_sparse else graph.initializer).append(tensor)
        stands = draft.aliases.get(name, name)
        if name not in draft.given and name not in own and stands in draft.constants:
            graph.initializer.append(numpy_helper.from_array(draft.constants[stands], name))
    try:
        content = small.SerializeToString()
    except (EncodeError, ValueError) as error:
        raise UnsupportedError(
            f"{draft.label}: nodes {[node.node.name for node in nodes]}: got weights beyond 2 GiB, "
            "expected less for nodes without a kernel; split the model"
        ) from error
    return HostModel(
        content=content,
        operators=tuple(node.node.op_type for node in nodes),
        reasons=tuple(dict.fromkeys(node.reason for node in nodes)),
    )


def _add_copies(part: _Part) -> Iterator[Any]:
    """Yield the nodes of a part, before each the copies that give a tensor the other name it is read by."""
    written: set[str] = set()
    for item in part.items:
        assert isinstance(item.node, HostNode)
        for name, stands in item.reads.items():
            if stands in written and name not in written:
                yield onnx.helper.make_node("Identity", [stands], [name])
                written.add(name)
        yield item.node.node.proto
        written.update(item.writes)


def _describe(draft: Draft, name: str) -> Any:
    value_type = make_value_type(draft.types.get(name, ""), draft.shapes.get(name))
    return onnx.ValueInfoProto(name=name, type=value_type)


def settle(graph: Graph) -> Graph:
    """Return the same network with tensors that no kernel touches left to the host."""
    calls = [node for nodes in graph.host_groups.values() for node in nodes]
    if not calls:
        return graph
    on_device = _find_tensors(node for node in graph.nodes if not isinstance(node.op, HostCall))
    on_host = _find_tensors(calls) - on_device
    tensors: dict[str, Tensor] = {
        name: replace(tensor, is_on_host=True) if name in on_host else tensor
        for name, tensor in graph.tensors.items()
    }
    models = {group: model for group, model in graph.host_models.items() if group in graph.host_groups}
    return replace(graph, tensors=tensors, host_models=models)


def _find_tensors(nodes: Iterable[Node]) -> set[str]:
    return {name for node in nodes for name in (*node.inputs, node.output)}
