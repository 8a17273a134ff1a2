"""Published networks with random weights, as PyTorch modules and as ONNX models exported from them."""

import io
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torchvision
import transformers

_IMAGE = (3, 224, 224)
_TOKENS, _HIDDEN = 128, 768
_CALIBRATION_BATCH = 4


class _Encoder(torch.nn.Module):  # type: ignore[misc]
    """BERT-base from embeddings to the last hidden state.

    Args:
        attention: The implementation; `eager` is the one that can be exported.
    """

    def __init__(self, attention: str) -> None:
        super().__init__()
        self.model = transformers.BertModel(transformers.BertConfig(attn_implementation=attention))

    def forward(self, x: Any) -> Any:
        return self.model(inputs_embeds=x).last_hidden_state


def _vision(name: str) -> Callable[[str], Any]:
    options = {"init_weights": False, "aux_logits": False} if name == "googlenet" else {}
    return lambda _: _take_first_batch(getattr(torchvision.models, name)(weights=None, **options))


def _take_first_batch(module: Any) -> Any:
    """Return a module whose batch normalizations take their statistics from the first batch alone."""
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.momentum = None
    return module


MODULES: Mapping[str, tuple[Callable[[str], Any], tuple[int, ...]]] = {
    **{
        name: (_vision(name), _IMAGE)
        for name in ("googlenet", "efficientnet_b0", "convnext_tiny", "vit_b_16", "swin_t")
    },
    "bert_base": (_Encoder, (_TOKENS, _HIDDEN)),
}
"""Name -> what makes a module for an implementation of attention, and the shape of one input."""


def make_module(name: str, *, attention: str = "sdpa") -> Any:
    """Return a module with the weights that its name always has, ready for inference."""
    torch.manual_seed(0)
    module = MODULES[name][0](attention)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim > 1 and not parameter.any():  # a head that is to be trained
                torch.nn.init.normal_(parameter, std=0.02)
        module.train()(torch.randn(_CALIBRATION_BATCH, *MODULES[name][1]))  # statistics of batches
    return module.eval()


def export_module(name: str, *, batch: int) -> bytes:
    """Return a module as an ONNX model."""
    file, module = io.BytesIO(), make_module(name, attention="eager")
    example = torch.randn(batch, *MODULES[name][1])
    torch.backends.mha.set_fastpath_enabled(False)  # which cannot be exported
    try:
        with torch.no_grad():
            torch.onnx.export(module, (example,), file, input_names=["x"], dynamo=False, opset_version=17)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    return file.getvalue()


def make_module_function(name: str, *, dtype: Any, is_channels_last: bool) -> Callable[[Any], Any]:
    """Return what a module computes on the GPU, as `torch_graph.make_function` does for a graph."""
    layout = torch.channels_last if is_channels_last else torch.contiguous_format
    compute: Callable[[Any], Any] = make_module(name).cuda().to(dtype).to(memory_format=layout)
    return compute
