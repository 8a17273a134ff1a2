"""The exception tree. Every error reads: where, what, got X, expected Y, what to do.

CodlError
├── ModelError              the ONNX file is broken or not what ONNX allows
│   └── UnsupportedError    an operator that nobody here has, or a part too large for the host
├── InputError              a feed of `run` is missing, extra, or of wrong dtype, rank or shape
├── DeviceError             no such device, driver broken, asked for too late
│   ├── DriverError         OpenCL itself is missing or refuses to load
│   └── BuildError          a driver refused a kernel
├── HostError               ONNX Runtime failed in a part of the network that it runs on the host
├── PlanError               a plan breaks one of its laws
├── ProfileError            a device profile is missing, stale or malformed
└── CacheError              a cache entry cannot be trusted
"""


class CodlError(Exception):
    """Base of every error codl raises on purpose."""


class ModelError(CodlError, ValueError):
    """The ONNX model is broken: unreadable, cyclic, or an attribute outside what ONNX allows."""


class UnsupportedError(ModelError):
    """Something valid that neither codl nor ONNX Runtime does here: an operator of an unknown domain, say."""


class InputError(CodlError, ValueError):
    """A feed of `run` is missing, extra, or has the wrong dtype, rank or shape."""


class DeviceError(CodlError, RuntimeError):
    """No such device, a device that cannot be used, or one asked for too late."""


class DriverError(DeviceError):
    """OpenCL is missing, has no platform, or a driver refuses to load."""


class BuildError(DeviceError):
    """A driver refused to build or launch a kernel."""


class HostError(CodlError, RuntimeError):
    """ONNX Runtime failed in a part of the network that it runs on the host."""


class PlanError(CodlError, ValueError):
    """A plan breaks one of its laws; the message lists every problem."""


class ProfileError(CodlError, RuntimeError):
    """A device profile is missing, stale, foreign or malformed."""


class CacheError(CodlError, RuntimeError):
    """A cache entry cannot be trusted and was not used."""
