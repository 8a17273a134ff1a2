"""Which node writes what the nodes of a model read."""

from collections import Counter
from collections.abc import Sequence

from codl.frontend.onnx_node import OnnxNode
from codl.frontend.structure import find_reads


class Producers:
    """The writers and the readers of a model's tensors.

    Args:
        nodes: All nodes, in topological order.
        outputs: Outputs of the model.
    """

    def __init__(self, nodes: Sequence[OnnxNode], outputs: Sequence[str]) -> None:
        self._producers = {name: node for node in nodes for name in node.outputs}
        self._reads = Counter(name for node in nodes for name in find_reads(node.proto))
        self._reads.update(outputs)

    def find_sole(self, node: OnnxNode) -> OnnxNode | None:
        """Return the node that writes the first input of another, if nothing else reads it."""
        name = node.inputs[0]
        return self._producers.get(name) if self._reads[name] == 1 else None
