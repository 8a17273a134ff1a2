"""Models that ONNX Runtime runs as a whole, as they are declared: codl cannot prepare them for one shape."""

from google.protobuf.message import EncodeError

from codl.errors import UnsupportedError
from codl.frontend.binding import bind
from codl.frontend.declared import Shapes, Values
from codl.frontend.reader import Source
from codl.frontend.refusal import RefusedError
from codl.host_session import open_host_session
from codl.ir.graph import Graph, HostModel, Node, Tensor
from codl.ir.ops import HostCall
from codl.runtime import onnxruntime

_GROUP = "host/1"


def leave_whole(
    source: Source,
    refusal: RefusedError | UnsupportedError,
    *,
    shapes: Shapes,
    initializers: Values | None,
) -> Graph:
    """Return a graph of a single host call: the model, with its dimensions as open as it declares them.

    The shapes of its outputs are known when it has run.

    Args:
        source: The model; its wiring, nodes and weights are sound.
        refusal: Why it cannot be prepared for these shapes.
        shapes: Shape of every input.
        initializers: What takes the place of initializers.

    Raises:
        RefusedError, UnsupportedError: ONNX Runtime refuses the model as declared, too; it is ``refusal``.
    """
    declared = {argument.name: argument.shape if argument.has_rank else None for argument in source.inputs}
    bind(source, shapes=declared, initializers=initializers)
    try:
        content = source.proto.SerializeToString()
    except (EncodeError, ValueError):  # beyond 2 GiB
        raise refusal from None
    if not _is_accepted(content):
        raise refusal
    reason = refusal.reason if isinstance(refusal, RefusedError) else str(refusal)
    inputs = tuple(argument.name for argument in source.inputs)
    outputs = {name: f"{name}/copy" if name in inputs else name for name in source.outputs}
    types = {argument.name: argument.type for argument in source.inputs}
    tensors = {
        name: Tensor(name=name, shape=shapes[name], type=types[name], is_on_host=True) for name in inputs
    }
    tensors |= {
        tensor: Tensor(name=tensor, shape=(), type=source.output_types[name], is_on_host=True)
        for name, tensor in outputs.items()
    }
    return Graph(
        name=source.proto.graph.name,
        nodes=tuple(
            Node(name=name, op=HostCall(group=_GROUP, index=index), inputs=inputs, output=tensor)
            for index, (name, tensor) in enumerate(outputs.items())
        ),
        inputs=inputs,
        outputs=tuple(outputs.values()),
        tensors=tensors,
        constants={},
        original_names={tensor: name for name, tensor in outputs.items() if tensor != name},
        host_models={
            _GROUP: HostModel(
                content=content,
                operators=tuple(node.op_type for node in source.proto.graph.node),
                reasons=(f"as a whole: {reason}",),
            )
        },
    )


def _is_accepted(content: bytes) -> bool:
    """Return whether ONNX Runtime takes a model; nothing is run."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    try:
        open_host_session(content, options, label="a whole model: got one")
    except UnsupportedError:
        return False
    return True
