"""Programs kept as the driver compiled them, so that a later process need not compile them again.

An entry stands under the SHA-256 of all that decides what the driver makes of a source. Drivers trust a
binary blindly (PoCL runs one with a flipped bit and ends the process on a truncated one), so nothing reaches
`create_program` but bytes whose own SHA-256 was just found right, from a file and a folder that only the
user can write.

Programs are stored after their first launch, so that what a driver compiles for a work-group size is inside.
`pocl` keeps what it compiled below POCL_CACHE_DIR, which codl moves with its own cache; to hand out a binary
it compiles every kernel again, for grids of any size, which takes as long as the first time. `oclgrind`
interprets: its binary is LLVM code that saves next to nothing.

Source:
    ResNet-50 on two cores of an Emerald Rapids, 15 programs. PoCL 3.1: from source 13 s, from its own cache
    0.57 s, from binaries 0.045 s, whose reading out takes another 12 s once. Intel's runtime: from source
    18 s, from binaries 0.02 s, reading them out 0.001 s.
"""

import hashlib
import json
from typing import Any

import numpy as np
import pyopencl as cl

from codl.assets import VERSION
from codl.cache.folders import KERNELS
from codl.cache.sealed import SealedFile
from codl.devices.boundary import driver_calls
from codl.devices.probe import build_quietly
from codl.errors import CacheError
from codl.machine import DeviceInfo

_WITHOUT_BINARIES = frozenset({"oclgrind", "pocl"})
_BINARY = "binary"


class KernelCache:
    """The binaries of one device."""

    def __init__(self, info: DeviceInfo, cl_device: Any) -> None:
        self._info = info
        self._cl_device = cl_device
        self._is_used = info.driver not in _WITHOUT_BINARIES

    def has(self, *, text: str, options: str) -> bool:
        """Return whether there is a binary of a source."""
        return self._is_used and make_key(self._info, text=text, options=options) in KERNELS

    def load(self, context: Any, *, text: str, options: str) -> Any | None:
        """Return the program of a source, or None when there is no binary of it that can be trusted."""
        if not self._is_used:
            return None

        def use(entry: SealedFile) -> Any:
            return create_program(context, self._cl_device, entry.text(_BINARY), options)

        return KERNELS.read(make_key(self._info, text=text, options=options), use)

    def store(self, program: Any, *, text: str, options: str, source: str) -> None:
        """Keep the binary of a program; after a first launch it holds all that the driver compiled for it."""
        if not self._is_used:
            return
        try:
            with driver_calls(self._info.name, "no binary", kind=CacheError):
                (binary,) = program.get_info(cl.program_info.BINARIES)
        except CacheError:
            return
        if binary:
            KERNELS.write(
                make_key(self._info, text=text, options=options),
                {_BINARY: np.frombuffer(binary, np.uint8)},
                about={"device": self._info.name, "what": f"{source} {options}"},
            )


def make_key(info: DeviceInfo, *, text: str, options: str) -> str:
    """Return the SHA-256 of all that decides a binary.

    Args:
        info: The device; its driver's and platform's versions count, as codl's own does.
        text: The whole source.
        options: Compiler options.
    """
    facts = [
        text,
        options,
        info.device_name,
        info.processor,
        info.vector_width,
        info.driver_version,
        info.platform_name,
        info.platform_version,
        VERSION,
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def create_program(context: Any, cl_device: Any, binary: bytes, options: str) -> Any:
    """Return a program from a binary: the only place where a driver is given one.

    Raises:
        CacheError: The driver does not take it.
    """
    refusal = "the driver refuses a binary of its own"
    with driver_calls("kernel cache", refusal, kind=CacheError):
        program = cl.Program(context, [cl_device], [binary])
        program._source = None  # of each kernel pyopencl asks for it, and without it for a kernel "_source"
        return build_quietly(program, options)
