"""ONNX's backend interface: `prepare`, `run_model`, `run_node`, `supports_device`.

Import it by name (`import codl.backend`); codl itself does not.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, ValueInfoProto, defs, helper
from onnx.backend.base import Backend, BackendRep

from codl.devices.drivers import devices
from codl.errors import CodlError, DeviceError, DriverError, InputError, suggest
from codl.frontend.reader import DEFAULT_DOMAINS, OLDEST_OPSET
from codl.machine import DeviceKind
from codl.options import SessionOptions
from codl.session import InferenceSession

_KINDS = {"CPU": DeviceKind.CPU, "CUDA": DeviceKind.GPU, "GPU": DeviceKind.GPU}


class CodlBackendRep(BackendRep):  # type: ignore[misc]
    """A model ready to run."""

    def __init__(self, session: InferenceSession) -> None:
        self.session = session

    def run(self, inputs: Any, **kwargs: Any) -> list[Any]:
        """Return all outputs, in the model's order.

        Args:
            inputs: By name, in the order of the inputs, or the array of a single one.
            kwargs: Accepted without effect.

        Raises:
            InputError: Inputs are missing, too many, or of the wrong dtype, rank or shape.
        """
        if isinstance(inputs, Mapping):
            return self.session.run(None, inputs)
        values = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
        names = [argument.name for argument in self.session.get_inputs()]
        if len(values) != len(names):
            raise InputError(f"inputs: got {len(values)} values, expected {len(names)}: {names}")
        return self.session.run(None, dict(zip(names, values, strict=True)))


class CodlBackend(Backend):  # type: ignore[misc]
    """codl as a backend of ONNX."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """Return whether codl can run a model on a device of this kind; the model is compiled to find out."""
        try:
            cls.prepare(model, device, **kwargs).session.close()
        except CodlError:
            return False
        return True

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> CodlBackendRep:
        """Return a model ready to run.

        Args:
            model: An `onnx.ModelProto`, a path, or a file's bytes.
            device: `CPU` for codl's default devices, `CUDA` or `GPU` for a GPU; with an index, such as
                `GPU:1`, the device of this place among those of its kind in `codl.devices()`.
            kwargs: Attributes of `SessionOptions`.

        Raises:
            DeviceError: There is no such device.
            InputError: `SessionOptions` has no such attribute.
            CodlError: As `InferenceSession`.
        """
        name = _find_name(device)
        if name is None:
            raise DeviceError(f"device: got {device!r}, expected 'CPU', or 'GPU' where there is one")
        options = SessionOptions(warm_up="block")
        if device.upper() != "CPU":
            options.devices = [name]
        for option, value in kwargs.items():
            if not hasattr(options, option):
                raise InputError(
                    f"{option}: got {value!r}, expected an attribute of codl.SessionOptions"
                    f"{suggest(option, SessionOptions.__slots__)}"
                )
            setattr(options, option, value)
        content = model.SerializeToString() if isinstance(model, ModelProto) else model
        return CodlBackendRep(InferenceSession(content, options))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> list[Any]:
        """Return the outputs of one run; arguments as in `prepare` and `CodlBackendRep.run`."""
        prepared = cls.prepare(model, device, **kwargs)
        with prepared.session:
            return prepared.run(inputs)

    @classmethod
    def run_node(
        cls,
        node: Any,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, Sequence[int]]] | None = None,
        **kwargs: Any,
    ) -> list[Any]:
        """Return the outputs of one operator.

        Args:
            node: The `onnx.NodeProto`.
            inputs: As in `CodlBackendRep.run`; a sequence in the order of the inputs that the node names.
            device: As in `prepare`.
            outputs_info: Without effect: output shapes are found.
            kwargs: `opset_version`, by default the newest that changed it; the rest as in `prepare`.
        """
        names = [name for name in dict.fromkeys(node.input) if name]
        values = [inputs] if isinstance(inputs, np.ndarray) else inputs
        given = dict(values) if isinstance(values, Mapping) else dict(zip(names, values, strict=True))
        opset = kwargs.pop("opset_version", None) or _find_version(node)
        opsets = [helper.make_opsetid(node.domain, opset)]
        graph = helper.make_graph(
            [node],
            "node",
            [_describe(name, np.asarray(given[name])) for name in names],
            [ValueInfoProto(name=name) for name in node.output if name],
        )
        ir_version = helper.find_min_ir_version_for(opsets, ignore_unknown=True)
        model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
        return cls.run_model(model, given, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether there is a device of this kind: `CPU`, `CUDA` or `GPU`, perhaps with an index."""
        return _find_name(device) is not None


def _find_name(device: str) -> str | None:
    """Return the name of the device of a kind and perhaps an index; None where there is none."""
    word, _, index = device.partition(":")
    try:
        names = [info.name for info in devices() if info.kind is _KINDS.get(word.upper())]
    except DriverError:
        return None
    place = int(index or "0") if (index or "0").isdecimal() else len(names)
    return names[place] if place < len(names) else None


def _find_version(node: Any) -> int:
    """Return the newest version of a node's operator; 1 where ONNX does not have the operator."""
    if not defs.has(node.op_type, domain=node.domain):
        return 1
    version = int(defs.get_schema(node.op_type, domain=node.domain).since_version)
    return max(OLDEST_OPSET, version) if node.domain in DEFAULT_DOMAINS else version


def _describe(name: str, value: np.ndarray[Any, Any]) -> Any:
    kind = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(name, kind, value.shape)


is_compatible = CodlBackend.is_compatible
prepare = CodlBackend.prepare
run = CodlBackend.run_model
run_model = CodlBackend.run_model
run_node = CodlBackend.run_node
supports_device = CodlBackend.supports_device
