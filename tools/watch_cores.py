"""Do the emulated pair's cores share a cache just now: how fast each reads what the other one has written.

The hypervisor of a virtual machine may move its cores between groups that share a cache; then times of plans
change within a minute, while those of one device alone stay as they are. Each line tells how fast devices
read half a MiB that the other one has just written, and that they have written themselves.

Example:
    python tools/watch_cores.py --seconds 60
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl

from codl.cli.output import print_message
from codl.devices.drivers import OpenedDevice, default_devices, emulate_pair
from codl.devices.probe import build_quietly
from codl.errors import CodlError

FLOATS = 1 << 17
LANES = 16
REPEATS = 20
SOURCE = """
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void write(__global float16 *data, const int count, const float value)
{
    for (int i = 0; i < count; ++i) data[i] = (float16)(value);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void read(__global const float16 *data, const int count, __global float16 *sum)
{
    float16 a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f;
    for (int i = 0; i < count; i += 4) {
        a += data[i];
        b += data[i + 1];
        c += data[i + 2];
        d += data[i + 3];
    }
    sum[0] = a + b + c + d;
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One device with kernels that write and read memory all devices see."""

    name: str
    queue: Any
    kernels: tuple[Any, Any]
    buffers: tuple[Any, ...]
    """Kept because a bound kernel does not hold its arguments."""

    def write(self) -> None:
        """Fill the memory."""
        cl.enqueue_nd_range_kernel(self.queue, self.kernels[0], (1,), (1,))
        self.queue.finish()

    def read(self) -> float:
        """Read the memory; return the seconds it took by the device's own clock."""
        event = cl.enqueue_nd_range_kernel(self.queue, self.kernels[1], (1,), (1,))
        event.wait()
        return float(event.profile.end - event.profile.start) * 1e-9


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line each second."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=10)
    args = parser.parse_args(arguments)
    memory = np.zeros(FLOATS + LANES, np.float32)
    start = -memory.ctypes.data // memory.itemsize % LANES  # a vector's alignment
    try:
        emulate_pair()
        readers = [prepare(one, memory[start : start + FLOATS]) for one in default_devices()]
    except CodlError as error:
        print_message(f"watch_cores: {error}")
        return 2
    for _ in range(args.seconds):
        for one, other in (readers, readers[::-1]):
            theirs, own = find_rate(one, other), find_rate(one, one)
            text = f"{one.name} reads {theirs:5.1f} GB/s of {other.name}'s, {own:5.1f} of its own"
            print(text, end="; " if one is readers[0] else "\n", flush=True)
        time.sleep(1)
    return 0


def prepare(opened: OpenedDevice, memory: Any) -> Reader:
    """Return a device with its kernels bound to shared memory."""
    context = cl.Context([opened.cl_device])
    queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    program = build_quietly(context, SOURCE)
    flags = cl.mem_flags
    data = cl.Buffer(context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=memory)
    total = cl.Buffer(context, flags.READ_WRITE, LANES * memory.itemsize)
    write, read = (cl.Kernel(program, name) for name in ("write", "read"))
    write.set_args(data, np.int32(FLOATS // LANES), np.float32(1))
    read.set_args(data, np.int32(FLOATS // LANES), total)
    return Reader(name=opened.info.name, queue=queue, kernels=(write, read), buffers=(data, total))


def find_rate(reader: Reader, writer: Reader) -> float:
    """Return the best of some readings of what a device has just written, in GB/s."""
    seconds = []
    for _ in range(REPEATS):
        writer.write()
        seconds.append(reader.read())
    return FLOATS * 4 / min(seconds) / 1e9


if __name__ == "__main__":
    sys.exit(main())
