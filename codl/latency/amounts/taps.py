"""What convolutions of one filter a channel sum (kernels/common/taps.h): taps inside, and at the sides."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from codl.catalog.gemm_tile import WAY_FLOATS, WAYS
from codl.catalog.spec import LaunchBatch, Parameters, Scalar
from codl.latency.amounts.traffic import Amounts, count_panels
from codl.machine import DeviceInfo

_GUARDS = 3
"""Pixels at each end of a run of which kernels ask where their taps lie: GUARDS in kernels/common/taps.h."""
_FREE_WAYS = 2
"""Lines of one place of a core's first cache (`WAYS`) that may hold inputs of a run at no cost."""
_KERNELS = ("depthwise_conv2d_rows__buffer", "conv2d_depthwise_pointwise__buffer")


def list_taps(
    batch: LaunchBatch, units: Mapping[str, Amounts], parameters: Parameters, info: DeviceInfo
) -> Mapping[str, Amounts]:
    """Return by name the taps of a register of channels that the busiest compute unit sums, [count] each.

    Rows outside the image are left out. Runs of pixels that see padding beside the image, or that are longer
    than it is wide, ask where taps lie: of a few pixels, in a loop over the taps, or of each (`find_way`).
    Boxes of fewer channels than a register holds are read lane by lane.
    Where channels are no multiple of a register, registers lie across two cache lines; where they are one of
    a large power of two, pixels crowd few places of a cache.

    Args:
        batch: A launch; of other kernels nothing is returned.
        units: What the busiest compute unit does.
        parameters: What the kernel is built with: pixels of a run, or of a register tile.
        info: The device.
    """
    if batch.entry not in _KERNELS:
        return {}
    scalars, run = batch.scalars, parameters.get("RUN", parameters["MR"])
    columns = scalars["col_end"] - scalars["col_begin"]
    runs = np.maximum(np.ceil(columns / run), 1)
    begin = scalars["row_begin"]
    end = scalars.get("row_end", begin + batch.global_size[:, 0])
    found: dict[str, Amounts] = {}
    if "RUN" in parameters:
        taps = units["taps"] * (runs * run / np.maximum(columns, 1))
    else:  # the other begins few runs for each work-item
        found = {"row_runs": (end - begin) * batch.global_size[:, 2] * runs / info.units}
        taps = units["steps"] * run
    taps = taps * share_inside(
        begin,
        end,
        length=scalars["in_h"],
        window=scalars["kernel_h"],
        stride=scalars["stride_h"],
        dilation=scalars["dilation_h"],
        pad=scalars["pad_h"],
    )
    if "RUN" not in parameters:
        found["lane_taps"] = _count_lanes(batch, taps, parameters)
    taps = taps * -(-parameters["VECTOR"] // info.vector_width)
    reach = (scalars["kernel_w"] - 1) * scalars["dilation_w"] - scalars["pad_w"]
    at_left = scalars["col_begin"] * scalars["stride_w"] < scalars["pad_w"]
    at_right = (scalars["col_end"] - 1) * scalars["stride_w"] + reach >= scalars["in_w"]
    is_row = (scalars["col_begin"] == 0) & (
        scalars["col_end"] * scalars["stride_w"] + reach >= scalars["in_w"]
    )
    at_sides = np.where(columns < run, runs, np.minimum(at_left.astype(np.float64) + at_right, runs))
    narrow, looped, asked = _count_ways(scalars, run, runs)
    channels = scalars["channels"]
    places = WAY_FLOATS // np.gcd(channels, WAY_FLOATS)
    crowd = ((run - 1) * scalars["stride_w"] + scalars["kernel_w"]) / places
    is_split = channels % np.minimum(parameters["VECTOR"], info.vector_width) > 0
    return found | {
        "seen_taps": taps,
        "edge_taps": taps * at_sides / runs,
        "narrow_taps": taps * narrow,
        "short_taps": taps * ((columns < run) & is_row & ~narrow),
        "looped_taps": taps * looped / runs,
        "asked_taps": taps * asked / runs,
        "split_taps": taps * is_split,
        "crowded_taps": taps * (np.maximum(crowd - _FREE_WAYS, 0) / WAYS),
    }


def _count_lanes(batch: LaunchBatch, taps: Amounts, parameters: Parameters) -> Amounts:
    """Return the values that boxes of fewer channels than a register's lanes read one by one, [count].

    Args:
        batch: A launch of one convolution.
        taps: Of all of its panels, [count].
        parameters: What the kernel is built with.
    """
    scalars = batch.scalars
    panels, _ = count_panels(batch)
    width = scalars["channel_end"] - scalars["channel_begin"]
    return np.asarray(np.where(width < parameters["VECTOR"], taps * (width / panels), 0.0))


def _count_ways(
    scalars: Mapping[str, Scalar], run: int, runs: Amounts
) -> tuple[npt.NDArray[np.bool_], Amounts, Amounts]:
    """Return whether rows are shorter than a run, and the runs of one that write no taps out, or ask each.

    Whether rows are shorter is asked of the tensor's: more pixels of it never ask less. All are [count].

    Args:
        scalars: Of the launch.
        run: Pixels of a run.
        runs: Of a row.
    """
    kernel, dilation, pad, stride, width = (
        scalars[name] for name in ("kernel_w", "dilation_w", "pad_w", "stride_w", "in_w")
    )
    reach = (kernel - 1) * dilation + 1
    begun = (width + pad - 1) // stride + 1
    within = (width + 2 * pad + 1 - reach) // stride + 1
    is_narrow = np.minimum(begun, within) < run  # with at most a column more of padding behind than before
    left = pad - scalars["col_begin"] * stride
    last = np.where(is_narrow, run, scalars["col_end"]) - 1
    right = last * stride - pad + reach - width

    three = (kernel == 3) & (dilation == 1) & ~is_narrow
    looped, asked = (
        np.minimum((left > columns).astype(np.float64) + (right > columns), runs)
        for columns in (1, _GUARDS * stride)
    )
    return is_narrow, np.where(three, looped, runs), asked


def share_inside(
    begin: Scalar,
    end: Scalar,
    *,
    length: Scalar,
    window: Scalar,
    stride: Scalar,
    dilation: Scalar,
    pad: Scalar,
) -> Amounts:
    """Return the share of the taps of some outputs that lie in the image along an axis, [count], in [0, 1].

    Args:
        begin: First output of each candidate, [count].
        end: Behind the last one, [count].
        length: Of the image.
        window: Taps of each output.
        stride: Between outputs.
        dilation: Between taps.
        pad: Zeros before the image.
    """
    taps = np.arange(int(np.max(window, initial=1)))[:, None]
    shift = taps * dilation - pad
    first = np.maximum(begin, -(shift // stride))
    last = np.minimum(end, (length - 1 - shift) // stride + 1)
    inside = np.where(taps < window, np.maximum(last - first, 0), 0).sum(axis=0)
    return np.asarray(inside / np.maximum((end - begin) * window, 1))
