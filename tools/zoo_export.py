"""The networks of the zoo and how they are exported, by torch, torchvision, timm, transformers, ultralytics.

Weights are random, by one seed; inputs have the sizes that the networks were made for, batch 1.
"""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

OPSET, QUANTISED = 17, "unet_int8"
_TIMM = (
    "resnet18", "resnet26d", "resnet50", "resnext50_32x4d", "seresnet50", "skresnet18", "res2net50_14w_8s",
    "cspresnet50", "regnety_004", "densenet121", "vgg11", "repvgg_a0", "inception_v3", "dla34",
    "hrnet_w18_small", "selecsls42b", "eca_nfnet_l0", "convnext_atto", "convnextv2_atto",
    "convmixer_768_32", "mobilenetv2_100", "mobilenetv3_large_100", "mobilenetv3_small_050",
    "mobilenetv4_conv_small", "mobilenetv4_hybrid_medium", "mnasnet_100", "spnasnet_100", "semnasnet_075",
    "hardcorenas_a", "lcnet_050", "tinynet_e", "mixnet_s", "ghostnet_100", "rexnet_100", "efficientnet_b0",
    "efficientnet_lite0", "tf_efficientnetv2_b0", "fbnetc_100", "mobileone_s0", "fastvit_t8",
    "ese_vovnet19b_dw", "vit_tiny_patch16_224", "deit_tiny_patch16_224", "swin_tiny_patch4_window7_224",
    "swinv2_cr_tiny_ns_224", "levit_128s", "poolformer_s12", "mobilevit_xxs", "mobilevitv2_050",
    "efficientformer_l1", "pvt_v2_b0", "xcit_nano_12_p16_224", "resmlp_12_224", "mixer_s16_224",
    "gmlp_s16_224", "edgenext_xx_small", "coat_lite_tiny", "crossvit_tiny_240", "twins_pcpvt_small",
    "cait_xxs24_224", "test_mambaout",
)  # fmt: skip
_TORCHVISION = ("vit_b_16", "swin_t", "convnext_tiny", "shufflenet_v2_x1_0", "squeezenet1_1", "googlenet")
_SEGMENTATION = ("deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large")
_YOLO = ("yolov8n", "yolo11n", "yolov8n-seg")
_TOKENS = 128
_TEXT: dict[str, dict[str, Any]] = {
    "Bert": {},
    "DistilBert": {"n_layers": 6},
    "Roberta": {},
    "Albert": {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072},
    "Electra": {},
    "MobileBert": {"num_hidden_layers": 6},
    "GPT2": {"n_layer": 6, "use_cache": False},
    "OPT": {"num_hidden_layers": 4, "use_cache": False},
}
"""Classes of transformers without `Model`, and what differs from their configuration."""
_SPEECH_SAMPLES, _MEL_FRAMES = 16000, 3000
Export = Callable[[], tuple[Any, tuple[Any, ...]]]
"""Makes a module and its inputs."""


def list_networks() -> dict[str, Export]:
    """Return by name how each network is made that is not quantised."""
    return dict(_iterate_networks())


def export(name: str, path: Path) -> None:
    """Write a network as ONNX.

    Raises:
        KeyError: The zoo has no such network.
    """
    import torch

    if name == QUANTISED:
        _export_quantised(path)
        return
    make = list_networks()[name]
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)  # which has no form in ONNX
    module, inputs = make()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = ["x", "time"][: len(inputs)]
        facts: Any = {"dynamo": False, "opset_version": OPSET, "input_names": names}
        torch.onnx.export(module.eval(), inputs, str(path), **facts)


def _export_quantised(path: Path) -> None:
    """Write the U-Net with weights and activations of 8 bits, between QuantizeLinear and DequantizeLinear."""
    import numpy as np
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    class Images(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self, name: str) -> None:
            rng = np.random.default_rng(0)
            self.images = iter([{name: rng.standard_normal((1, 3, 192, 192), np.float32)} for _ in range(2)])

        def get_next(self) -> Any:
            return next(self.images, None)

    plain = path.with_suffix(".float.onnx")
    export("unet", plain)
    quantize_static(str(plain), str(path), Images("x"))
    plain.unlink()


def _iterate_networks() -> Iterator[tuple[str, Export]]:
    for name in _TIMM:
        yield name, partial(_make_timm, name)
    for name in (*_TORCHVISION, *_SEGMENTATION):
        yield name, partial(_make_torchvision, name)
    for name in _YOLO:
        yield name, partial(_make_yolo, name)
    for name in _TEXT:
        yield name.lower(), partial(_make_text, name)
    for name in ("whisper", "wav2vec2", "clip", "segformer"):
        yield name, partial(_make_transformer, name)
    from tools import zoo_modules

    for name, make in zoo_modules.MODULES.items():
        yield name, make


def _make_timm(name: str) -> tuple[Any, tuple[Any, ...]]:
    import timm
    import torch

    module = timm.create_model(name, pretrained=False, exportable=True)
    return module, (torch.randn(1, *module.default_cfg["input_size"]),)


def _make_torchvision(name: str) -> tuple[Any, tuple[Any, ...]]:
    import torch
    import torchvision

    if name in _SEGMENTATION:
        module = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None)
        return _take(module, "out"), (torch.randn(1, 3, 256, 256),)
    facts = {"init_weights": True, "aux_logits": False} if name == "googlenet" else {}
    return getattr(torchvision.models, name)(weights=None, **facts), (torch.randn(1, 3, 224, 224),)


def _make_yolo(name: str) -> tuple[Any, tuple[Any, ...]]:
    import torch
    from ultralytics import YOLO

    module = YOLO(f"{name}.yaml").model.fuse()
    module.model[-1].export, module.model[-1].format = True, "onnx"
    return module, (torch.randn(1, 3, 640, 640),)


def _make_text(name: str) -> tuple[Any, tuple[Any, ...]]:
    import torch
    import transformers

    config = getattr(transformers, f"{name}Config")(attn_implementation="eager", **_TEXT[name])
    module = getattr(transformers, f"{name}Model")(config)
    return _take(module, "last_hidden_state"), (torch.randint(0, 999, (1, _TOKENS)),)


def _make_transformer(name: str) -> tuple[Any, tuple[Any, ...]]:
    import torch
    import transformers as of

    eager = {"attn_implementation": "eager"}
    if name == "whisper":
        module = of.WhisperModel(of.WhisperConfig(encoder_layers=4, decoder_layers=1, **eager)).encoder
        return _take(module, "last_hidden_state"), (torch.randn(1, 80, _MEL_FRAMES),)
    if name == "wav2vec2":
        module = of.Wav2Vec2Model(of.Wav2Vec2Config(num_hidden_layers=4, **eager))
        return _take(module, "last_hidden_state"), (torch.randn(1, _SPEECH_SAMPLES),)
    if name == "clip":
        module = of.CLIPVisionModel(of.CLIPVisionConfig(num_hidden_layers=6, **eager))
        return _take(module, "last_hidden_state"), (torch.randn(1, 3, 224, 224),)
    module = of.SegformerForSemanticSegmentation(of.SegformerConfig(**eager))
    return _take(module, "logits"), (torch.randn(1, 3, 256, 256),)


def _take(module: Any, key: str) -> Any:
    """Return a module with one of a module's outputs."""
    import torch

    class Taken(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, x: Any) -> Any:
            return self.module(x)[key]

    return Taken()
