"""Folds constants and batch normalizations by ONNX Runtime's basic-level rewriting."""

import tempfile
from pathlib import Path
from typing import Any

import onnx

from codl.assets import find_scratch_folder
from codl.errors import CodlError, HostError
from codl.frontend.reader import Source
from codl.frontend.refusal import RefusedError
from codl.limits import Limits
from codl.runtime import onnxruntime

_MESSAGE_LIMIT_BYTES = 2**26
"""Larger weights are passed in a file of their own: twice as fast for VGG-16, and protobuf ends at 2 GiB."""
_BESIDE_LEAST_BYTES = 1024
_PROBE_BYTES = 1 << 20
"""Written where ONNX Runtime failed: it does not tell a full disk from a wrong model."""
_FOLDED_BYTES = "optimization.constant_folding_max_output_size_in_bytes"
"""ONNX Runtime computes no larger constant; older versions do not know the entry."""
_UNWANTED = ["MatMulAddFusion", "Pad_Fusion"]
"""Rewrites products of more than two axes as Gemm between two reshapes, which hides the order of its axes;
turns zeros before a MaxPool into padding that never is the largest."""


def simplify(source: Source) -> Any:
    """Return the model as an `onnx.ModelProto` with constants and batch normalizations folded.

    Rewriting stops at ONNX Runtime's basic level: only operators that the model's own opsets have come out.
    Where weights are of a type that it computes in float32 it converts them last: then they are folded again.

    Raises:
        RefusedError: ONNX Runtime refuses the model.
        HostError: ONNX Runtime failed, for want of memory for instance.
        CodlError: There is no room for temporary files.
    """
    try:
        simple = _rewrite(source.proto, source.limits)
        weights = {tensor.name for tensor in simple.graph.initializer}
        has_converted = any(n.op_type == "Cast" and n.input[0] in weights for n in simple.graph.node)
        return _rewrite(simple, source.limits) if has_converted else simple
    except OSError as error:  # no fault of the model
        raise CodlError(
            f"{source.label}: got {error.strerror or error} for temporary files, expected room for them; "
            "free some, or set TMPDIR to a folder on another disk"
        ) from error
    except Exception as error:  # ONNX Runtime's errors have no common base but this one
        if type(error).__module__.startswith(onnxruntime.__name__):
            raise RefusedError.by("ONNX Runtime", error, label=source.label) from error
        raise HostError(
            f"{source.label}: got {' '.join(str(error).split()) or type(error).__name__} while ONNX Runtime "
            "simplified the model, expected none; free memory and load it again"
        ) from error


def _rewrite(proto: Any, limits: Limits) -> Any:
    weight_bytes = sum(len(t.raw_data) for t in proto.graph.initializer)
    is_large = weight_bytes > _MESSAGE_LIMIT_BYTES
    place = find_scratch_folder(2 * weight_bytes + _MESSAGE_LIMIT_BYTES)
    with tempfile.TemporaryDirectory(prefix="codl-", dir=place) as folder:
        written = Path(folder, "simplified.onnx")
        options = _quiet_options(written, is_large=is_large)
        options.add_session_config_entry(_FOLDED_BYTES, str(limits.folded_bytes))
        try:
            onnxruntime.InferenceSession(
                _write_large(proto, Path(folder)) if is_large else proto.SerializeToString(),
                options,
                providers=["CPUExecutionProvider"],
                disabled_optimizers=_UNWANTED,
                enable_fallback=0,  # which would try again, and print that it does
            )
            return onnx.load(written)
        except Exception:
            Path(folder, "probe").write_bytes(bytes(_PROBE_BYTES))  # no room is no fault of the model
            raise


def _quiet_options(written: Path, *, is_large: bool) -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(written)
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.enable_cpu_mem_arena = False
    options.add_session_config_entry("session.disable_prepacking", "1")
    if is_large:
        beside = "session.optimized_model_external_initializers"
        options.add_session_config_entry(f"{beside}_file_name", "simplified.bin")
        options.add_session_config_entry(f"{beside}_min_size_in_bytes", str(_BESIDE_LEAST_BYTES))
    return options


def _write_large(proto: Any, folder: Path) -> str:
    """Write the model and, in a file of their own, its weights; return the model's path."""
    path = folder / "given.onnx"
    onnx.save_model(
        proto, path, save_as_external_data=True, location="given.bin", size_threshold=_BESIDE_LEAST_BYTES
    )
    return str(path)
