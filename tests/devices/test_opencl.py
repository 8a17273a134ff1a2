"""What a device hands to its driver."""

from codl.devices.opencl import Device
from codl.machine import DeviceKind


def test_compilers_for_cpus_need_not_look_for_vectors(device: Device) -> None:
    text = device._read("elementwise/elementwise_binary__buffer.cl")

    assert ("vec_type_hint" in text.partition("\n")[0]) is (device.info.kind is DeviceKind.CPU)
