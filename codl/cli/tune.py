"""`codl tune`: the fastest kernels for the shapes of some networks, found by measurement."""

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import geometric_mean
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from codl.cli.flags import add_json_flag, add_pair_flag, parse_seconds
from codl.cli.output import escape, print_json, print_line, print_message, print_table
from codl.devices.drivers import default_devices, find_device
from codl.devices.opencl import open_device
from codl.frontend import load_model
from codl.tuner.report import ShapeReport, State, TuneReport
from codl.tuner.tune import Session, plan_tuning, tune
from codl.tuner.workload import Shape, find_shapes, read_workload, workload_path

COLUMNS = ("shape", "times", "candidates", "measured", "best", "ms", "bound", "gain", "state")


def add_parser(subparsers: Any) -> None:
    """Add the verb with its flags."""
    parser = subparsers.add_parser(
        "tune",
        help="find the fastest kernel parameters for this device",
        description="Measures kernels with different parameters on the shapes of the models named, or of "
        "common networks, and keeps the best for every model. What is measured is never lost: start it again "
        "to go on.",
        epilog="example: codl tune --device intel-cpu --budget 10m --model resnet50.onnx",
    )
    parser.add_argument(
        "--device", metavar="D", help="name or kind of the device (default: each default device in turn)"
    )
    parser.add_argument(
        "--budget",
        type=parse_seconds,
        default=600.0,
        metavar="T",
        help="time to spend, such as 90s, 10m, 1h; divided among devices (default: 10m)",
    )
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="M",
        help="ONNX file whose shapes to tune; may be repeated (default: the networks codl ships shapes of)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be measured; measure nothing, write nothing"
    )
    parser.add_argument("--list", action="store_true", help="with --dry-run: list every shape")
    add_pair_flag(parser)
    add_json_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Tune; return 1 when a shape has no kernel that computes it correctly."""
    shapes = _find_shapes(args.model)
    names = [find_device(args.device).info.name] if args.device else _default_names()
    reports = []
    for name in names:
        if args.dry_run:
            reports.append(plan_tuning(find_device(name).info, shapes))
            continue
        device = open_device(name)
        with _show_progress(name, len(shapes)) as on_shape:
            session = Session(budget_seconds=args.budget / len(names), on_shape=on_shape)
            reports.append(tune(device, shapes, session))
    if args.json:
        print_json([_to_json(report) for report in reports])
    else:
        for report in reports:
            if args.dry_run and not args.list:
                _print_plan(report)
            else:
                _print_report(report)
    return int(any(report.count(State.FAILED) for report in reports))


def _find_shapes(models: Sequence[str]) -> tuple[Shape, ...]:
    if models:
        return find_shapes(load_model(model).graph for model in models)
    return read_workload(workload_path())


def _default_names() -> list[str]:
    return [opened.info.name for opened in default_devices()]


@contextmanager
def _show_progress(name: str, total: int) -> Iterator[Callable[[ShapeReport], None]]:
    """Show on stderr how far a device is: a bar on a terminal, a line for each shape elsewhere."""
    if not sys.stderr.isatty():
        yield lambda report: print_message(f"{name}: {_describe(report)}")
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[last]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(name, total=total, last="")
        yield lambda report: progress.update(task, advance=1, last=escape(_describe(report)[:60]))


def _describe(report: ShapeReport) -> str:
    what = report.note if report.entry is None else _format_best(report)
    return " ".join(f"{report.state}: {report.shape} {what}".split())


def _format_best(report: ShapeReport) -> str:
    if report.entry is None:
        return "-"
    values = (f"{name}={value}" for name, value in sorted(report.entry.parameters.items()))
    return " ".join((report.entry.implementation, *values))


def _print_plan(report: TuneReport) -> None:
    """Print the measurements of a session by kernel; a layer's time is divided among its candidates."""
    layers: Counter[str] = Counter()
    candidates: Counter[str] = Counter()
    seconds: dict[str, float] = defaultdict(float)
    left = [one for one in report.shapes if one.state is State.LEFT]
    for one in left:
        for kernel, count in one.kernels:
            layers[kernel] += 1
            candidates[kernel] += count
            seconds[kernel] += one.most_seconds * count / one.candidates
    rows = [
        (kernel, str(layers[kernel]), str(count), f"{seconds[kernel]:.0f} s")
        for kernel, count in candidates.most_common()
    ]
    print_table(("kernel", "layers", "candidates", "at most"), rows, title=report.device)
    total = sum(one.most_seconds for one in left)
    print_line(_summarise(report))
    print_line(
        f"{candidates.total()} candidates of {len(left)} layers take {total / 60:.0f} min at most, and what "
        "the driver compiles; --list names the layers"
    )


def _print_report(report: TuneReport) -> None:
    shown = [one for one in report.shapes if one.state is not State.PLAIN]
    print_table(COLUMNS, [_to_row(one) for one in shown], title=report.device)
    for one in report.shapes:
        if one.state is State.FAILED:
            print_message(f"codl: {one.shape}: {one.note}")
    print_line(_summarise(report))


def _summarise(report: TuneReport) -> str:
    gains = _gains(report)
    counts = ", ".join(f"{report.count(state)} {state}" for state in State if report.count(state))
    found = f"; {report.candidates} candidates, {report.measured} measured" if report.measured else ""
    gain = f"; {geometric_mean(gains):.3f} times as fast as the default" if gains else ""
    return f"{report.device}: {counts}{found}{gain}; {report.seconds:.0f} s; {report.path}"


def _gains(report: TuneReport) -> list[float]:
    entries = (one.entry for one in report.shapes)
    return [entry.default_seconds / entry.seconds for entry in entries if entry and entry.default_seconds]


def _to_row(report: ShapeReport) -> tuple[str, ...]:
    entry = report.entry
    if entry is None:
        times = ("-", "-", "-")
    else:
        bound = "-" if entry.bound_seconds is None else f"{entry.bound_seconds / entry.seconds:.2f}"
        gain = "-" if entry.default_seconds is None else f"{entry.default_seconds / entry.seconds:.2f}"
        times = (f"{entry.seconds * 1e3:.3g}", bound, gain)
    numbers = (str(report.count), str(report.candidates), str(report.measured))
    return report.shape, *numbers, _format_best(report), *times, report.state


def _to_json(report: TuneReport) -> dict[str, Any]:
    gains = _gains(report)
    return {
        "device": report.device,
        "database": report.path,
        "seconds": report.seconds,
        "candidates": report.candidates,
        "measured": report.measured,
        "gain": geometric_mean(gains) if gains else None,
        "states": {state: report.count(state) for state in State},
        "shapes": [one.to_json() for one in report.shapes],
    }
