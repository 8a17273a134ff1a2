"""The exception tree. Every error reads: where, what, got X, expected Y, what to do.

CodlError
├── ModelError              the ONNX file is broken or not what ONNX allows            InvalidGraph, Fail
│   ├── MissingFileError    there is no such file                                      NoSuchFile
│   ├── ProtobufError       the bytes are no ONNX model                                InvalidProtobuf
│   ├── ModelTypeError      what was given is neither a path nor bytes                 TypeError
│   └── UnsupportedError    not implemented here, or a part too large for the host     NotImplemented
├── InputError              a feed of `run` is missing, extra, or does not fit         InvalidArgument
│   └── InputTypeError      an argument of `run` is no mapping, list or options        TypeError
├── StoppedError            a run was begun with `RunOptions.terminate` set            Fail
├── DeviceError             no such device, driver broken, asked for too late          Fail
│   ├── DriverError         OpenCL itself is missing or refuses to load
│   └── BuildError          a driver refused a kernel
├── HostError               ONNX Runtime failed in what it runs on the host            Fail
├── PlanError               a plan breaks one of its laws
├── ProfileError            a device profile is missing, stale or malformed
└── CacheError              a cache entry cannot be trusted

On the right: what a program written for onnxruntime catches there, which the class derives from too.
"""

from collections.abc import Iterable
from difflib import get_close_matches

from onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    NoSuchFile,
)
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NotImplementedByRuntime


class CodlError(Exception):
    """Base of every error codl raises on purpose."""


class ModelError(CodlError, ValueError, InvalidGraph, Fail):  # type: ignore[misc]
    """The ONNX model is broken: unreadable, cyclic, or an attribute outside what ONNX allows."""


class MissingFileError(ModelError, NoSuchFile):  # type: ignore[misc]
    """There is no file at the path of a model."""


class ProtobufError(ModelError, InvalidProtobuf):  # type: ignore[misc]
    """A model's bytes are no ONNX model."""


class ModelTypeError(ModelError, TypeError):
    """What was given for a model is neither a path nor bytes."""


class UnsupportedError(ModelError, NotImplementedByRuntime):  # type: ignore[misc]
    """Something valid that neither codl nor ONNX Runtime does here: an operator of an unknown domain, say."""


class InputError(CodlError, ValueError, InvalidArgument):  # type: ignore[misc]
    """A feed of `run` is missing, extra, or has the wrong dtype, rank or shape."""


class InputTypeError(InputError, TypeError):
    """An argument of `run` or of a session is of the wrong Python type."""


class StoppedError(CodlError, Fail):  # type: ignore[misc]
    """A run was begun with `RunOptions.terminate` set."""


class DeviceError(CodlError, RuntimeError, Fail):  # type: ignore[misc]
    """No such device, a device that cannot be used, or one asked for too late."""


class DriverError(DeviceError):
    """OpenCL is missing, has no platform, or a driver refuses to load."""


class BuildError(DeviceError):
    """A driver refused to build or launch a kernel."""


class HostError(CodlError, RuntimeError, Fail):  # type: ignore[misc]
    """ONNX Runtime failed in a part of the network that it runs on the host."""


class PlanError(CodlError, ValueError):
    """A plan breaks one of its laws; the message lists every problem."""


class ProfileError(CodlError, RuntimeError):
    """A device profile is missing, stale, foreign or malformed."""


class CacheError(CodlError, RuntimeError):
    """A cache entry cannot be trusted and was not used."""


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a question after the known name that is most like a wrong one; empty where none is like it."""
    lowered = {one.lower(): one for one in known}
    found = get_close_matches(name.lower(), lowered, n=1)
    return f"; did you mean {lowered[found[0]]!r}?" if found else ""
