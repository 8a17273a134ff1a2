"""The exception tree. Every error reads: where, what, got X, expected Y, what to do.

CodlError
├── ModelError              the ONNX file is broken or not what ONNX allows
│   └── UnsupportedError    a valid operator or attribute that codl has no implementation for
├── InputError              a feed of `run` is missing, extra, or of wrong dtype, rank or shape
├── DeviceError             no such device, driver broken, asked for too late
│   ├── DriverError         OpenCL itself is missing or refuses to load
│   └── BuildError          a driver refused a kernel
├── PlanError               a plan breaks one of its laws
├── ProfileError            a device profile is missing, stale or malformed
└── CacheError              a cache entry cannot be trusted
"""


class CodlError(Exception):
    """Base of every error codl raises on purpose."""


class ModelError(CodlError, ValueError):
    """The ONNX model is broken: unreadable, cyclic, or an attribute outside what ONNX allows."""


class UnsupportedError(ModelError):
    """A valid operator, attribute or type that codl has no implementation for."""


class InputError(CodlError, ValueError):
    """A feed of `run` is missing, extra, or has the wrong dtype, rank or shape."""


class DeviceError(CodlError, RuntimeError):
    """No such device, a device that cannot be used, or one asked for too late."""


class DriverError(DeviceError):
    """OpenCL is missing, has no platform, or a driver refuses to load."""


class BuildError(DeviceError):
    """A driver refused to build or launch a kernel."""


class PlanError(CodlError, ValueError):
    """A plan breaks one of its laws; the message lists every problem."""


class ProfileError(CodlError, RuntimeError):
    """A device profile is missing, stale, foreign or malformed."""


class CacheError(CodlError, RuntimeError):
    """A cache entry cannot be trusted and was not used."""
