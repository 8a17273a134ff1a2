"""A graph being rewritten: nodes by their output, in topological order."""

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from codl.ir.graph import FloatArray, Graph, Node, Tensor

_SMALL_BYTES = 1 << 16
"""Up to so many bytes a constant is compared with those that were added before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """A node that does the work of two: of the node that wrote its output so far, and of another."""

    node: Node
    absorbed: str
    """Output of the other node; this tensor ceases to exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """Nodes, uses and constants of a graph, open to change."""

    graph: Graph
    """As it came; its shapes stay true."""
    nodes: dict[str, Node]
    """Output -> node, in topological order."""
    uses: Counter[str]
    """Activation -> reads by nodes, plus one for a graph output."""
    constants: dict[str, FloatArray]
    positions: dict[str, int]
    derived: dict[tuple[object, object], str] = field(default_factory=dict)
    """Shape and content of a constant that was added -> its name."""

    @classmethod
    def of(cls, graph: Graph) -> "Workbench":
        """Return a bench with ``graph`` on it."""
        uses = Counter(name for node in graph.nodes for name in node.inputs)
        uses.update(graph.outputs)
        return cls(
            graph=graph,
            nodes={node.output: node for node in graph.nodes},
            uses=uses,
            constants=dict(graph.constants),
            positions={node.output: index for index, node in enumerate(graph.nodes)},
        )

    def sole_producer(self, name: str) -> Node | None:
        """Return the node that writes ``name`` if it is read once and is no graph output."""
        return self.nodes.get(name) if self.uses[name] == 1 else None

    def position(self, node: Node) -> int:
        """Return the place of a node in the topological order."""
        return self.positions[node.output]

    def apply(self, fusion: Fusion) -> None:
        """Put the fused node in place of the later of the two that it replaces."""
        del self.nodes[fusion.absorbed]
        self.nodes[fusion.node.output] = fusion.node

    def add_constant(self, hint: str, value: npt.ArrayLike) -> str:
        """Add a derived constant, cast to float32, and return its name; that of an equal one if it is small.

        So layers that share a weight share what kernels make of weight and bias.
        """
        array = np.ascontiguousarray(value, dtype=np.float32)
        content = array.shape, array.tobytes() if array.nbytes <= _SMALL_BYTES else id(array)
        if content in self.derived:
            return self.derived[content]
        name, count = hint, 1
        while name in self.graph.tensors or name in self.constants:
            count += 1
            name = f"{hint}_{count}"
        self.constants[name] = array
        self.derived[content] = name
        return name

    def finish(self) -> Graph:
        """Return the rewritten graph; tensors that no node mentions are left out."""
        graph, nodes = self.graph, tuple(self.nodes.values())
        mentioned = dict.fromkeys(graph.inputs)
        for node in nodes:
            mentioned.update(dict.fromkeys((*node.inputs, node.output)))
        tensors = {
            name: Tensor(name=name, shape=self.constants[name].shape)
            if name in self.constants
            else graph.tensors[name]
            for name in mentioned
        }
        return replace(
            graph,
            nodes=nodes,
            tensors=tensors,
            constants={name: self.constants[name] for name in mentioned if name in self.constants},
        )
