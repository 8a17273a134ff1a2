"""Turns a simplified ONNX model into a `Graph`, one node at a time; what has no kernel goes to the host."""

from typing import Any

from codl.frontend import activations, linear, normalization, pooling, reducing, resizing, shaping
from codl.frontend.attention import Finder, add_attention
from codl.frontend.copies import finish_outputs
from codl.frontend.draft import Draft, Translations
from codl.frontend.embeddings import add_embedding, find_embeddings
from codl.frontend.host import arrange
from codl.frontend.initializers import read_array
from codl.frontend.onnx_node import NoKernelError, OnnxNode
from codl.frontend.reader import NEWEST_OPSET, OLDEST_OPSET, find_opset
from codl.frontend.runtime_types import complete
from codl.frontend.shapes import infer_shapes
from codl.frontend.shuffles import Shuffle, find_shuffles
from codl.frontend.signal_images import widen_signals
from codl.ir.graph import Graph
from codl.ir.ops import ChannelShuffle
from codl.limits import DEFAULT_LIMITS, Limits

TRANSLATIONS: Translations = {
    **activations.TRANSLATIONS,
    **linear.TRANSLATIONS,
    **normalization.TRANSLATIONS,
    **pooling.TRANSLATIONS,
    **reducing.TRANSLATIONS,
    **resizing.TRANSLATIONS,
    **shaping.TRANSLATIONS,
}
"""ONNX operator -> its translation."""


def translate(model: Any, *, label: str, limits: Limits = DEFAULT_LIMITS) -> Graph:
    """Return the graph of a simplified `onnx.ModelProto`, nothing fused yet.

    Nodes of operators, attributes, types or shapes that no kernel computes become host calls.

    Args:
        model: The model, which is changed; its inputs are feeds of known shape.
        label: The model in messages.
        limits: Bounds on the tensors.

    Raises:
        ModelError: A node is broken.
        UnsupportedError: What the host would have to run is too large.
    """
    opset = find_opset(model)
    inferred = complete(infer_shapes(model, label=label, limits=limits), model)
    if widen_signals(model, inferred):
        inferred = complete(infer_shapes(model, label=label, limits=limits), model)
    nodes = [OnnxNode(proto=proto, opset=opset, label=label) for proto in model.graph.node]
    values = {tensor.name: read_array(tensor, label=label) for tensor in model.graph.initializer}
    sparse = {tensor.values.name for tensor in model.graph.sparse_initializer}
    inputs = [value.name for value in model.graph.input if value.name not in values]
    draft = Draft(
        label=label,
        opset=opset,
        shapes=inferred.shapes,
        types=inferred.types,
        values=values,
        taken={*values, *inputs, *(name for node in nodes for name in node.outputs)},
        given=frozenset({*values, *sparse}),
    )
    draft.tensors.update({name: draft.describe(name) for name in inputs})
    declared = [value.name for value in model.graph.output]
    _translate_nodes(draft, nodes, inputs=inputs, outputs=declared)
    outputs = finish_outputs(draft, declared)
    arranged = arrange(draft, model=model, inputs=inputs, outputs=outputs)
    return Graph(
        name=model.graph.name,
        nodes=arranged.nodes,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        tensors=dict(draft.tensors),
        constants=dict(draft.constants),
        original_names=dict(draft.original_names),
        host_models=arranged.host_models,
    )


def _translate_nodes(draft: Draft, nodes: list[OnnxNode], *, inputs: list[str], outputs: list[str]) -> None:
    if draft.opset < OLDEST_OPSET:
        for node in nodes:
            draft.add_host_node(node, reason=f"opset {draft.opset}: kernels know {OLDEST_OPSET} and later")
        return
    finder = Finder(nodes, draft.shapes, draft.values, outputs=outputs, fits=draft.fits_device)
    attention = {one.last.output: one for one in finder.find_all()}
    inside = finder.find_hidden(list(attention.values()))
    shuffles = {one.last.output: one for one in find_shuffles(nodes, draft.shapes, outputs=outputs)}
    hidden = {node.output for shuffle in shuffles.values() for node in shuffle.inner}
    found = find_embeddings(nodes, draft, inputs=inputs, outputs=outputs)
    embeddings = {one.node.output: one for one in found}
    hidden.update(name for one in found for name in one.moved)
    for node in nodes:
        if node.output in attention:
            add_attention(draft, attention[node.output])
        elif node.output in inside:
            continue
        elif node.output in embeddings:
            add_embedding(draft, embeddings[node.output])
        elif node.output in shuffles:
            _add_shuffle(draft, shuffles[node.output])
        elif node.output not in hidden:
            _add_node(draft, node)


def _add_node(draft: Draft, node: OnnxNode) -> None:
    """Add what a node of the model becomes: nodes of the graph, or one on the host."""
    translation = TRANSLATIONS.get(node.op_type)
    if translation is None:
        draft.add_host_node(node, reason=f"no kernel for {node.op_type}")
        return
    if node.opset > NEWEST_OPSET and node.version > NEWEST_OPSET:
        reason = f"{node.op_type} of opset {node.version}: kernels know {NEWEST_OPSET} and earlier"
        draft.add_host_node(node, reason=reason)
        return
    mark = draft.mark()
    try:
        translation(draft, node)
    except NoKernelError as error:
        draft.rewind(mark)
        draft.add_host_node(node, reason=error.reason)


def _add_shuffle(draft: Draft, found: Shuffle) -> None:
    """Add a channel shuffle, or the three nodes that it is where no kernel computes it."""
    node, mark = found.last, draft.mark()
    try:
        x = draft.operand(found.source, node=node)
        shape = draft.shape(node.output, node=node)
    except NoKernelError:
        draft.rewind(mark)
        for part in (*found.inner, node):
            _add_node(draft, part)
        return
    draft.add_node(ChannelShuffle(groups=found.groups), (x,), node.output, shape=shape, name=node.name)
