"""Which driver of a processor is the default: the one that its profile says is faster."""

from codl.catalog.layers import Layer
from codl.catalog.stored import load_database
from codl.devices.drivers import OpenedDevice, devices, rank_without_profile, select_devices
from codl.errors import ProfileError
from codl.ir.boxes import Boxes
from codl.ir.ops import Conv2d
from codl.latency.predictor import Predictor
from codl.latency.store import find_profile
from codl.machine import DeviceInfo

_TYPICAL = (
    Layer(
        op=Conv2d(kernel=(3, 3), pads=(1, 1, 1, 1)),
        inputs=((1, 64, 56, 56), (64, 64, 3, 3)),
        constants=(1,),
        output=(1, 64, 56, 56),
    ),
    Layer(
        op=Conv2d(kernel=(1, 1)),
        inputs=((1, 256, 28, 28), (128, 256, 1, 1)),
        constants=(1,),
        output=(1, 128, 28, 28),
    ),
)
"""Convolutions as most networks have them."""


def select_default_devices() -> tuple[OpenedDevice, ...]:
    """Return one device for each processor: of several drivers the one with the faster profile.

    Raises:
        DeviceError: No device works.
    """
    return select_devices(None, rank=rank_by_profile)


def rank_by_profile(info: DeviceInfo) -> float:
    """Return the order of a driver among those of its processor: by profile where all of them have one."""
    times = {one.name: _predict_us(one) for one in devices() if one.processor == info.processor}
    own = times.get(info.name)
    return rank_without_profile(info) if own is None or None in times.values() else own


def _predict_us(info: DeviceInfo) -> float | None:
    """Return what typical operators take by a device's profile; None without one that can be used."""
    try:
        profile = find_profile(info)
        if profile is None:
            return None
        predictor = Predictor(profile, info, database=load_database(info))
        graphs = [layer.make_graph() for layer in _TYPICAL]
        return sum(
            float(predictor.predict(graph.nodes[0], graph, Boxes.whole(layer.output, 1)).us[0])
            for graph, layer in zip(graphs, _TYPICAL, strict=True)
        )
    except ProfileError:
        return None
