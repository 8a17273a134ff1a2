"""Whether a device really works: one tiny kernel, built, launched and checked."""

import warnings
from functools import cache
from typing import Any

import numpy as np
import pyopencl as cl

from codl.devices.limits import pinned_caller

COUNT = 64
_SHORTAGES = (cl.MemoryError, MemoryError)
SOURCE = """
__kernel void codl_probe(__global const float *src, __global float *dst)
{
    const int i = get_global_id(0);
    dst[i] = fma(src[i], 2.0f, 1.0f);
}
"""


def find_fault(device: Any) -> str | None:
    """Return in one line what is wrong with an OpenCL device, or None when it computes what it should.

    The verdict is kept for the life of the process, unless memory was short.
    """
    try:
        return _find_lasting_fault(device)
    except _SHORTAGES as error:
        return tell_reason(error)


@cache
def _find_lasting_fault(device: Any) -> str | None:
    try:
        with pinned_caller():  # threads that a driver starts for its first context keep where they may run
            result = _run_probe(device)
    except _SHORTAGES:
        raise
    except Exception as error:  # whatever a driver raises is its fault
        return tell_reason(error)
    expected = np.arange(COUNT, dtype=np.float32) * 2 + 1
    return None if np.array_equal(result, expected) else "a launch computed wrong numbers"


def build_quietly(context: Any, source: str) -> Any:
    """Return a built program; a build log that holds no error, as Intel's always is, warns nobody."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)
        return cl.Program(context, source).build(cache_dir=False)


def tell_reason(error: Exception) -> str:
    """Return the line of a driver's message that says most: a compiler's `error:` line when there is one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("error:")]
    return (told or lines or [type(error).__name__])[0]


def _run_probe(device: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    program = build_quietly(context, SOURCE)
    source = np.arange(COUNT, dtype=np.float32)
    result = np.zeros(COUNT, dtype=np.float32)
    flags = cl.mem_flags
    src = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=source)
    dst = cl.Buffer(context, flags.WRITE_ONLY, result.nbytes)
    kernel = cl.Kernel(program, "codl_probe")
    kernel.set_args(src, dst)
    cl.enqueue_nd_range_kernel(queue, kernel, (COUNT,), None)
    cl.enqueue_copy(queue, result, dst)
    queue.finish()
    return result
