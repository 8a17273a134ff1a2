"""A mend for the PoCL wheel of 2022 on processors newer than itself.

The wheel's compiler does not know AMD's family 26 (Zen 5), calls it `generic`, and then refuses to compile
for a processor of that name: every build fails. Zen 4 it takes for its predecessor `znver3`, which has no
AVX-512; its own kernel library is for AVX-512 all the same, and kernels that hand it vectors of 16 crash. The
name is one field of the device's structure in memory. With the name of an AVX-512 processor that the compiler
knows, which is what the library was chosen for, the device builds, computes right, and is as fast as current
ones.

It is applied to exactly one known binary, and only where the field holds what fails.
"""

import ctypes
from typing import Any

from codl.devices.limits import read_system_file

KNOWN_LIBRARY = "libpocl-21062cec.so"
"""The hash in the name stands for the contents of the library in pocl-binary-distribution 3.0."""
_NAME_OFFSET = 640
"""Where that binary keeps the pointer to the processor's name, in bytes from the device's address."""
_MISTAKEN = (b"generic", b"znver3")
_NEEDED_FLAGS = frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})
_REPLACEMENT = ctypes.create_string_buffer(b"skylake-avx512")


def mend_processor_name(device: Any) -> bool:
    """Give a device of the known wheel a processor name that its compiler takes; tell whether it lacked one.

    Source:
        Measured on a Zen 5: without it `unknown target CPU 'generic'` for every kernel; with it a chain of
        fma takes 46 ms, as on PoCL 3.1 and on Intel's runtime.
    """
    if str(device.driver_version) != "3.0-rc2" or not _has_avx512():
        return False
    if KNOWN_LIBRARY not in read_system_file("/proc/self/maps"):
        return False
    field = ctypes.c_void_p.from_address(device.int_ptr + _NAME_OFFSET)
    if not field.value or ctypes.string_at(field.value) not in _MISTAKEN:
        return False
    field.value = ctypes.addressof(_REPLACEMENT)
    return True


def _has_avx512() -> bool:
    flags = next(
        (line for line in read_system_file("/proc/cpuinfo").splitlines() if line.startswith("flags")), ""
    )
    return set(flags.split()) >= _NEEDED_FLAGS
