"""Whether a device really works: one tiny kernel, built, launched and checked."""

import warnings
from functools import cache
from typing import Any

import numpy as np
import pyopencl as cl

from codl.devices.limits import pinned_caller
from codl.ir.graph import FloatArray

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
    values = np.arange(COUNT, dtype=np.float32)
    try:
        with pinned_caller():  # threads that a driver starts for its first context keep where they may run
            result = compute(device, SOURCE, "codl_probe", values)
    except _SHORTAGES:
        raise
    except Exception as error:  # whatever a driver raises is its fault
        return tell_reason(error)
    return None if np.array_equal(result, values * 2 + 1) else "a launch computed wrong numbers"


def build_quietly(program: Any, options: str = "") -> Any:
    """Return a program built; build logs without an error, which Intel's driver writes, are not shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)
        return program.build(options=options.split(), cache_dir=False)


def compute(device: Any, source: str, entry: str, values: FloatArray) -> FloatArray:
    """Return what a kernel that reads an array of floats writes to another one, an item for each float."""
    context = cl.Context([device])
    queue, result, flags = cl.CommandQueue(context), np.zeros_like(values), cl.mem_flags
    src = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=values)
    dst = cl.Buffer(context, flags.WRITE_ONLY, result.nbytes)
    kernel = cl.Kernel(build_quietly(cl.Program(context, source)), entry)
    kernel.set_args(src, dst)
    cl.enqueue_nd_range_kernel(queue, kernel, values.shape, None)
    cl.enqueue_copy(queue, result, dst)
    queue.finish()
    return result


def tell_reason(error: Exception) -> str:
    """Return the line of a driver's message that says most: a compiler's `error:` line when there is one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("error:")]
    return (told or lines or [type(error).__name__])[0]
