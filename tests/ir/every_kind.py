"""One strategy for each kind of operator; together they cover every region rule."""

from codl.ir import ops
from tests.ir.random_attention import attentions
from tests.ir.random_moves import (
    channel_shuffles,
    depth_to_spaces,
    embeddings,
    paddings,
    resizings,
    slices,
    transposes,
)
from tests.ir.random_nodes import (
    binaries,
    concats,
    convolutions,
    moments,
    pointwise,
    poolings,
    products,
    reshapes,
    softmaxes,
    space_to_depths,
)
from tests.ir.random_reductions import normalizations, reductions, response_norms, transposed_convolutions

_TYPES = [one for one in vars(ops).values() if isinstance(one, type)]
OPERATORS = tuple(one for one in _TYPES if issubclass(one, ops.Op) and one is not ops.Op)
EVERY_KIND = {
    "convolution": convolutions(),
    "transposed convolution": transposed_convolutions(),
    "pooling": poolings(),
    "product": products(),
    "binary": binaries(),
    "pointwise": pointwise(),
    "moment": moments(),
    "normalization": normalizations(),
    "reduction": reductions(),
    "response norm": response_norms(),
    "concat": concats(),
    "reshape": reshapes(),
    "softmax": softmaxes(),
    "attention": attentions(),
    "space to depth": space_to_depths(),
    "depth to space": depth_to_spaces(),
    "embedding": embeddings(),
    "channel shuffle": channel_shuffles(),
    "transpose": transposes(),
    "slice": slices(),
    "padding": paddings(),
    "resizing": resizings(),
}
"""Name -> strategy of graphs of one node."""
