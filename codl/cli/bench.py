"""`codl bench`: latency of a plan against ONNX Runtime and each device alone, in interleaved rounds."""

import argparse
import platform
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from codl.cli.comparison import find_errors, make_random_feeds, name_outputs, open_reference
from codl.cli.flags import add_json_flag, parse_count, parse_names
from codl.cli.output import print_json, print_line, print_message, print_table
from codl.cli.planning import add_plan_flags, session_options
from codl.devices.drivers import select_devices
from codl.devices.limits import count_cores
from codl.devices.timing import CONTROL_SUFFIX, Ratio, Rounds, Row, interleave, lead_in, time_call
from codl.options import SessionOptions
from codl.plan.steps import Chain, Host, Plan
from codl.session import InferenceSession
from codl.session.verify import find_lone_device

Feeds = Mapping[str, Any]
_PEERS = ("ort", "single")
_QUIET = 0.03
"""How far a/a is from 1 on a quiet machine, at most."""
_SINGLE = "single:"


def add_parser(subparsers: Any) -> None:
    """Add the verb with its flags."""
    parser = subparsers.add_parser(
        "bench",
        help="measure latency against ONNX Runtime and each device alone",
        description="Measures a model in interleaved rounds; ratios are medians with 90 % intervals.",
        epilog="example: codl bench vgg16.onnx --devices intel-cpu --against ort",
    )
    parser.add_argument("model", help="ONNX file")
    add_plan_flags(parser)
    parser.add_argument("--plan", metavar="FILE", help="use this plan")
    parser.add_argument(
        "--against",
        type=_parse_peers,
        default=_PEERS,
        metavar="A,B",
        help="what to compare with: ort, single (default: both); each device alone is always measured",
    )
    parser.add_argument(
        "--rounds", type=parse_count(1), default=200, metavar="N", help="most rounds (default: 200)"
    )
    parser.add_argument(
        "--warmup", type=parse_count(0), default=3, metavar="N", help="rounds before the first (default: 3)"
    )
    parser.add_argument(
        "--random-seed", type=parse_count(0), default=0, metavar="N", help="seed of the inputs"
    )
    add_json_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure the model and print the report."""
    options = session_options(args)
    options.plan = args.plan
    with ExitStack() as stack:
        session = stack.enter_context(InferenceSession(args.model, options))
        feeds = make_random_feeds(session, args.random_seed)
        reference = open_reference(args.model)
        rows: dict[str, Row] = {}
        if "ort" in args.against:
            rows["ort"] = lead_in(time_call(partial(reference.run, None, feeds)))
        for name in _find_names(args, session.plan):
            single = session
            if find_lone_device(session.plan) != name:
                single = stack.enter_context(
                    InferenceSession(args.model, _single_options(name, session.plan.precision))
                )
            rows[_SINGLE + name] = lead_in(time_call(partial(single.run, None, feeds)))
        rows["codl"] = lead_in(time_call(partial(session.run, None, feeds)))
        best = _find_best_single(rows)
        rounds = interleave(
            rows,
            watch=[(name, "codl") for name in ("ort", best) if name in rows],
            control=best,
            warmup=args.warmup,
            least_rounds=min(10, args.rounds),
            most_rounds=args.rounds,
        )
        error = _find_error(session, reference, feeds)
        report = _make_report(args.model, session.plan, rounds, best, error)
    if args.json:
        print_json(report)
    else:
        _print_report(report)
    return 0


def _parse_peers(text: str) -> Sequence[str]:
    names = parse_names(text)
    if not set(names) <= set(_PEERS):
        raise argparse.ArgumentTypeError(f"got {text!r}, expected {' or '.join(_PEERS)}, or both")
    return names


def _find_names(args: argparse.Namespace, plan: Plan) -> Sequence[str]:
    """Return the devices in use: those of the plan, and those that were asked for."""
    asked = [] if args.plan or not args.devices else select_devices(args.devices)
    return tuple(dict.fromkeys((*plan.devices, *(opened.info.name for opened in asked))))


def _single_options(device: str, precision: str) -> SessionOptions:
    options = SessionOptions(warm_up="block", precision=precision)
    options.planner = f"single:{device}"
    return options


def _find_best_single(rows: Mapping[str, Row]) -> str:
    """Return the row of the fastest device alone, after a short trial where there are several."""
    names = [name for name in rows if name.startswith(_SINGLE)]
    if len(names) == 1:
        return names[0]
    trial = interleave({name: rows[name] for name in names}, warmup=2, least_rounds=5, most_rounds=5)
    return min(names, key=trial.median)


def _find_error(session: InferenceSession, reference: Any, feeds: Feeds) -> float:
    """Return the largest max|error| / max|reference| over the outputs."""
    names = name_outputs(session)
    values, expected = (
        dict(zip(names, each.run(names, feeds), strict=True)) for each in (session, reference)
    )
    return max(find_errors(names, values, expected).values())


def _make_report(model: str, plan: Plan, rounds: Rounds, best: str, error: float) -> dict[str, Any]:
    rows = []
    for name in sorted(rounds.seconds, key=lambda name: name == "codl"):
        row: dict[str, Any] = {
            "name": name,
            "median_ms": rounds.median(name) * 1e3,
            "p10_ms": rounds.percentile(name, 10) * 1e3,
            "p90_ms": rounds.percentile(name, 90) * 1e3,
            "p99_ms": rounds.percentile(name, 99) * 1e3,
            "per_second": 1 / rounds.median(name),
        }
        if name == "codl":
            predicted = plan.predicted_us
            row |= {"predicted_ms": None if predicted is None else predicted / 1e3, "plan": _summarise(plan)}
        rows.append(row)
    ratios = {}
    if "ort" in rounds.seconds:
        ratios["ort/codl"] = _ratio_values(rounds.ratio("ort", "codl"))
    is_best = best == f"{_SINGLE}{find_lone_device(plan)}"
    # The plan of the best device alone is neither faster nor slower than that device.
    ratio = Ratio(median=1.0, low=1.0, high=1.0) if is_best else rounds.ratio(best, "codl")
    ratios["best_single/codl"] = _ratio_values(ratio)
    ratios["a/a"] = _ratio_values(rounds.ratio(best, best + CONTROL_SUFFIX))
    return {
        "model": Path(model).name,
        "rounds": rounds.count,
        "machine": f"{platform.machine()}, {count_cores()} cores, {platform.system()}",
        "rows": rows,
        "ratios": ratios,
        "max_relative_error": error,
    }


def _summarise(plan: Plan) -> str:
    chains = sum(isinstance(step, Chain) for step in plan.steps)
    on_host = sum(isinstance(step, Host) for step in plan.steps)
    hosts = f", {on_host} on the host" if on_host else ""
    return (
        f"{plan.planner or 'given'}: {len(plan.steps)} steps, {chains} chains over "
        f"{', '.join(plan.devices)}{hosts}"
    )


def _ratio_values(ratio: Ratio) -> dict[str, Any]:
    return {"median": ratio.median, "ci90": [ratio.low, ratio.high]}


def _print_report(report: Mapping[str, Any]) -> None:
    keys = ("median_ms", "p10_ms", "p90_ms", "p99_ms", "per_second", "predicted_ms")
    print_table(
        ["row", "median ms", "p10", "p90", "p99", "a second", "predicted ms"],
        [
            [row["name"], *("" if row.get(key) is None else f"{row[key]:.2f}" for key in keys)]
            for row in report["rows"]
        ],
        title=f"{report['model']}, {report['rounds']} rounds, {report['machine']}",
    )
    for name, ratio in report["ratios"].items():
        low, high = ratio["ci90"]
        print_line(f"{name}  {ratio['median']:.3f}  [{low:.3f}, {high:.3f}]")
    print_line(f"max relative error  {report['max_relative_error']:.2e}")
    print_line(f"a/a is a row over its second measurement, {CONTROL_SUFFIX}: the noise")
    if abs(report["ratios"]["a/a"]["median"] - 1) > _QUIET:
        print_message("note: the machine is not quiet (a/a); differences as small as that are noise")
