"""The outputs of a graph under construction: what nodes write, and copies of what they do not write."""

from collections.abc import Sequence

from onnx import helper

from codl.errors import ModelError
from codl.frontend.draft import Draft, HostNode
from codl.frontend.onnx_node import OnnxNode
from codl.ir.graph import Node, Tensor
from codl.ir.ops import Unary


def finish_outputs(draft: Draft, names: Sequence[str]) -> list[str]:
    """Return the tensors that are outputs of the graph: the model's own, or copies of others.

    A copy of an input or a constant gets a name of its own.

    Raises:
        ModelError: Nothing stands for one.
    """
    draft.leave_carried(names)
    written = {name for node in draft.nodes for name in _find_outputs(node)}
    return [name if name in written else _copy_output(draft, name) for name in names]


def _copy_output(draft: Draft, name: str) -> str:
    """Add a copy of what stands for an output that no node writes, and return its name."""
    source, output = draft.aliases.get(name, name), name
    if source == name:
        output = draft.fresh_name(f"{name}/copy")
        draft.original_names[output] = name
    if name in draft.given and draft.fits_device(name):
        draft.add_model_constant(name)
    if source in draft.tensors and not draft.tensors[source].is_on_host:
        return draft.add_node(Unary(), [source], output, shape=draft.tensors[source].shape)
    if source not in draft.tensors and source not in draft.given:
        raise ModelError(
            f"{draft.label}: output {name!r}: got no node that writes it, expected one; "
            "export the model again"
        )
    return _copy_on_host(draft, source, output)


def _copy_on_host(draft: Draft, source: str, output: str) -> str:
    """Add a copy of an input or constant that devices cannot have."""
    found = draft.describe(source)
    copy = OnnxNode(
        proto=helper.make_node("Identity", [source], [output], name=output),
        opset=draft.opset,
        label=draft.label,
    )
    draft.nodes.append(HostNode(node=copy, reason=f"output {source!r} is {found.type}"))
    draft.tensors[output] = Tensor(name=output, shape=found.shape, type=found.type, is_on_host=True)
    return output


def _find_outputs(node: Node | HostNode) -> tuple[str, ...]:
    return (node.output,) if isinstance(node, Node) else node.node.outputs
