"""What `codl doctor` tries on a device; each check runs for real and says in a sentence what it saw.

`python -m codl.devices.checks WHAT [DEVICE ...]` runs some of them and prints them as JSON. The doctor starts
it that way, because a driver may take its process down.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyopencl as cl

from codl.devices.drivers import OpenedDevice, find_device, find_problems, load
from codl.devices.findings import Finding, Status
from codl.devices.pages import allocate_host
from codl.devices.probe import build_quietly, compute, find_fault, tell_reason
from codl.devices.signal_checks import check_signals
from codl.errors import DeviceError
from codl.ir.graph import FloatArray
from codl.machine import DeviceKind

ROUNDS = 50
"""Hand-overs of the coherence check."""
LENGTH = 1 << 16
SOURCE = """
__kernel void codl_add(__global const float *src, __global float *dst, const float value)
{
    const int i = get_global_id(0);
    dst[i] = src[i] + value;
}
"""
IMAGE_SOURCE = """
__constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
__kernel void codl_read(__read_only image2d_t src, __global float4 *dst)
{
    const int x = get_global_id(0), y = get_global_id(1);
    dst[y * get_global_size(0) + x] = read_imagef(src, nearest, (int2)(x, y));
}
"""
FP16_SOURCE = """
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
__kernel void codl_half(__global const float *src, __global float *dst)
{
    const int i = get_global_id(0);
    dst[i] = (float)((half)src[i] * (half)2.0f);
}
"""


def check_drivers() -> Iterator[Finding]:
    """Yield one finding for each device that loads and each driver that does not."""
    for problem in find_problems():
        yield Finding.judge(problem.source, "driver", problem.message, is_right=False, remedy=problem.remedy)
    for opened in load():
        info = opened.info
        message = f"{info.platform_name} {info.driver_version}, {info.units} units, {info.device_name}"
        yield Finding(subject=info.name, check="device", status=Status.OK, message=message)


def check_device(opened: OpenedDevice) -> Iterator[Finding]:
    """Yield what a device does with a launch, a copy, host memory, an image and half floats."""
    fault = find_fault(opened.cl_device)
    yield _finding(opened, "launch", fault or "builds, launches, computes right", fault is None)
    if fault is not None:
        return
    yield _try(opened, "copy", _check_copy)
    if opened.info.is_unified:
        yield _try(opened, "host memory", _check_host_memory)
    if opened.info.has_images:
        yield _try(opened, "images", _check_image)
    else:
        yield _finding(opened, "images", "not offered by the driver; buffers are used", is_right=True)
    if opened.info.has_fp16:
        yield _try(opened, "fp16", _check_fp16)
    else:
        yield _finding(opened, "fp16", "not offered by the driver; float32 is used", is_right=True)


def check_coherence(first: OpenedDevice, second: OpenedDevice) -> Iterator[Finding]:
    """Yield whether two CPU drivers see each other's writes in one host array after the writer's finish."""
    subject, remedy = f"{first.info.name} + {second.info.name}", "set CODL_SHARING=copied"
    try:
        lost = _count_lost_rounds(first, second)
        message = f"{lost} of {ROUNDS} hand-overs without a map lost writes"
    except Exception as error:  # whatever a driver raises is its fault
        lost, message = ROUNDS, f"shared host memory fails ({tell_reason(error)})"
    yield Finding.judge(subject, "coherence", message, is_right=not lost, remedy=remedy)


def _count_lost_rounds(first: OpenedDevice, second: OpenedDevice) -> int:
    """Return in how many rounds second(first(x)) over two shared arrays came out wrong."""
    left, right = allocate_host(LENGTH), allocate_host(LENGTH)
    launches = [_prepare_add(first, left, right), _prepare_add(second, right, left)]
    lost = 0
    for index in range(ROUNDS):
        left[:] = index
        for queue, kernel, _ in launches:
            cl.enqueue_nd_range_kernel(queue, kernel, (LENGTH,), None)
            queue.finish()
        lost += not bool((right == index + 1).all() and (left == index + 2).all())
    return lost


def _check_copy(opened: OpenedDevice) -> bool:
    context, queue = _open(opened)
    source = np.random.default_rng(0).random(LENGTH * 4, dtype=np.float32)
    result = np.zeros_like(source)
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, source.nbytes)
    cl.enqueue_copy(queue, buffer, source)
    cl.enqueue_copy(queue, result, buffer)
    queue.finish()
    return np.array_equal(source, result)


def _check_host_memory(opened: OpenedDevice) -> bool:
    """Return whether the device computes in the host's own array: a CPU without a map, others with one."""
    source, result = allocate_host(LENGTH), allocate_host(LENGTH)
    source[:] = 3
    queue, kernel, buffers = _prepare_add(opened, source, result)
    cl.enqueue_nd_range_kernel(queue, kernel, (LENGTH,), None)
    queue.finish()
    if opened.info.kind is not DeviceKind.CPU:
        view, _ = cl.enqueue_map_buffer(
            queue, buffers[1], cl.map_flags.READ, 0, result.shape, result.dtype, is_blocking=True
        )
        view.base.release(queue)
        queue.finish()
    return bool((result == 4).all())


def _check_image(opened: OpenedDevice) -> bool:
    context, queue = _open(opened)
    width, height = 8, 4
    source = np.random.default_rng(0).random((height, width, 4), dtype=np.float32)
    result = np.zeros_like(source)
    form = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
    image = cl.create_image(context, cl.mem_flags.READ_ONLY, form, shape=(width, height))
    cl.enqueue_copy(queue, image, source, origin=(0, 0), region=(width, height))
    dst = cl.Buffer(context, cl.mem_flags.WRITE_ONLY, result.nbytes)
    kernel = cl.Kernel(build_quietly(cl.Program(context, IMAGE_SOURCE)), "codl_read")
    kernel.set_args(image, dst)
    cl.enqueue_nd_range_kernel(queue, kernel, (width, height), None)
    cl.enqueue_copy(queue, result, dst)
    queue.finish()
    return np.array_equal(source, result)


def _check_fp16(opened: OpenedDevice) -> bool:
    source = np.arange(0, 16, 0.25, dtype=np.float32)
    return np.array_equal(source * 2, compute(opened.cl_device, FP16_SOURCE, "codl_half", source))


def _prepare_add(opened: OpenedDevice, src: FloatArray, dst: FloatArray) -> tuple[Any, Any, list[Any]]:
    """Return a queue, the kernel that adds 1, and its buffers over two host arrays."""
    context, queue = _open(opened)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    buffers = [cl.Buffer(context, flags, hostbuf=array) for array in (src, dst)]
    kernel = cl.Kernel(build_quietly(cl.Program(context, SOURCE)), "codl_add")
    kernel.set_args(*buffers, np.float32(1))
    return queue, kernel, buffers


def _open(opened: OpenedDevice) -> tuple[Any, Any]:
    context = cl.Context([opened.cl_device])
    return context, cl.CommandQueue(context)


def _try(opened: OpenedDevice, check: str, run: Callable[[OpenedDevice], bool]) -> Finding:
    try:
        is_right = run(opened)
    except Exception as error:  # whatever a driver raises is its fault
        return _finding(opened, check, tell_reason(error), is_right=False)
    return _finding(opened, check, "right" if is_right else "wrong numbers", is_right)


def _finding(opened: OpenedDevice, check: str, message: str, is_right: bool) -> Finding:
    remedy = suggest_remedy(opened.info.driver)
    return Finding.judge(opened.info.name, check, message, is_right=is_right, remedy=remedy)


def suggest_remedy(driver: str) -> str:
    """Return what to do about a driver that does not work."""
    return {
        "intel": "pip install --upgrade intel-opencl-rt intel-cmplr-lib-rt",
        "pocl": "as root: apt-get install pocl-opencl-icd (the PyPI wheel is too old for some processors)",
        "nvidia": "reinstall the NVIDIA driver with its OpenCL part",
    }.get(driver, "reinstall or remove this driver")


def main(arguments: Sequence[str]) -> int:
    """Run one kind of check, print what it found as one line of JSON, and return 0."""
    what, *names = arguments
    try:
        if what == "drivers":
            findings = list(check_drivers())
        elif what == "device":
            findings = list(check_device(find_device(names[0])))
        else:
            check = check_signals if what == "signals" else check_coherence
            findings = list(check(find_device(names[0]), find_device(names[1])))
    except DeviceError as error:
        findings = [Finding(subject="OpenCL", check="driver", status=Status.BROKEN, message=str(error))]
    print(json.dumps([asdict(finding) for finding in findings]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
