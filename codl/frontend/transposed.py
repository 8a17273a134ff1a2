"""Translation of ConvTranspose, and the padding that its attributes ask for."""

from codl.frontend.draft import Draft, Translations
from codl.frontend.onnx_node import OnnxNode
from codl.frontend.windows import read_transposed_window
from codl.ir.ops import ConvTranspose2d


def translate_conv_transpose(draft: Draft, node: OnnxNode) -> None:
    """Add a `ConvTranspose2d`."""
    x, weight = node.inputs[0], node.inputs[1]
    rank = len(draft.shapes.get(x, ()))
    if rank != 4:
        raise node.unsupported(got=f"an input of {rank} axes", expected="4 (2-D convolution)")
    bias = node.optional_input(2)
    constants = [weight] if bias is None else [weight, bias]
    for name in constants:
        draft.value(name, node=node)
    weight_shape = draft.shape(weight, node=node)
    shape = draft.shape(node.output, node=node)
    window = read_transposed_window(node, x=draft.shape(x, node=node), weight=weight_shape, out_shape=shape)
    op = ConvTranspose2d(
        kernel=window.kernel,
        stride=window.stride,
        dilation=window.dilation,
        pads=window.pads,
        groups=node.integer("group", 1),
        has_bias=bias is not None,
    )
    inputs = [draft.operand(name, node=node) for name in (x, *constants)]
    draft.add_node(op, inputs, node.output, shape=shape, name=node.name)


TRANSLATIONS: Translations = {
    "ConvTranspose": translate_conv_transpose,
}
