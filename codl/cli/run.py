"""`codl run`: one inference, compared with ONNX Runtime when asked."""

import argparse
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from codl.cli.comparison import (
    find_errors,
    is_numeric,
    make_random_feeds,
    name_outputs,
    open_reference,
)
from codl.cli.flags import add_json_flag, parse_count, parse_output_folder
from codl.cli.output import describe_unwritable, print_json, print_message, print_table, write_file
from codl.cli.planning import add_plan_flags, session_options
from codl.errors import InputError, suggest
from codl.files import open_regular
from codl.frontend import open_model
from codl.machine import Precision
from codl.session import InferenceSession

_LONGEST_NAME_BYTES = 200
"""Of a file; systems take 255, with what is added."""
TOLERANCE = 1e-4
"""max|error| / max|reference| that `--check` accepts for a whole network."""
ROUNDED_TOLERANCE = 1e-2
"""The same where products are rounded to 11 bits."""


def add_parser(subparsers: Any) -> None:
    """Add the verb with its flags."""
    parser = subparsers.add_parser(
        "run",
        help="run a model once",
        description="Runs a model once on the chosen devices.",
        epilog="example: codl run resnet50.onnx --emulate-pair --devices cpu,gpu --planner even --check",
    )
    parser.add_argument("model", help="ONNX file")
    add_plan_flags(parser)
    parser.add_argument("--plan", metavar="FILE", help="use this plan")
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=FILE.npy", help="feed of one input"
    )
    parser.add_argument(
        "--random-seed", type=parse_count(0), default=0, metavar="N", help="seed of inputs that are not given"
    )
    parser.add_argument(
        "--output", type=parse_output_folder, metavar="DIR", help="write every output as a .npy file"
    )
    parser.add_argument(
        "--check", action="store_true", help="compare with ONNX Runtime; exit 1 on a difference"
    )
    add_json_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the model; return 1 when `--check` finds a difference."""
    options = session_options(args)
    options.plan = args.plan
    given = _read_feeds(args)
    with InferenceSession(args.model, options) as session:
        feeds = given | make_random_feeds(session, args.random_seed, given=given)
        names = name_outputs(session)
        outputs = dict(zip(names, session.run(names, feeds), strict=True))
        tolerance = TOLERANCE if session.plan.precision is Precision.FLOAT32 else ROUNDED_TOLERANCE
    if args.output:
        _write_outputs(outputs, args.output)
    errors: dict[str, float] = {}
    if args.check:
        expected = open_reference(args.model).run(names, feeds)
        errors = find_errors(names, outputs, dict(zip(names, expected, strict=True)))
    rows = [
        {
            "output": name,
            "shape": list(value.shape) if isinstance(value, np.ndarray) else None,
            "mean": float(value.mean()) if is_numeric(value) and value.size else None,
            "std": float(value.std()) if is_numeric(value) and value.size else None,
            "relative_error": errors.get(name),
        }
        for name, value in outputs.items()
    ]
    failed = [name for name, error in errors.items() if not error <= tolerance]
    if args.json:
        print_json(rows)
    else:
        print_table(list(rows[0]), [[_format(value) for value in row.values()] for row in rows])
    for name in failed:
        print_message(
            f"codl: output {name!r}: got error {errors[name]:.2e}, expected at most {tolerance:.0e}"
        )
    return 1 if failed else 0


def _read_feeds(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arrays of `--input`, all of them of inputs that the model has."""
    if not args.input:
        return {}
    source = open_model(args.model)
    known = [argument.name for argument in (*source.inputs, *source.overridable)]
    feeds: dict[str, Any] = {}
    for item in args.input:
        name, _, path = item.partition("=")
        if path and name not in known:
            raise InputError(
                f"--input {item}: the model has no input {name!r}, expected one of {known}"
                f"{suggest(name, known)}"
            )
        try:
            feeds[name] = _load_array(path)
        except (OSError, ValueError, EOFError, MemoryError) as error:
            problem = str(error) or type(error).__name__
            raise InputError(f"--input {item}: got {problem}, expected NAME=FILE.npy") from error
    return feeds


def _load_array(path: str) -> Any:
    with open_regular(path) as (descriptor, _), open(descriptor, "rb", closefd=False) as file:
        loaded = np.load(file, allow_pickle=False)
    if not isinstance(loaded, np.ndarray):
        raise ValueError("an archive of arrays")
    return loaded


def _write_outputs(outputs: dict[str, Any], folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(describe_unwritable(str(folder), error)) from error
    for (name, value), file in zip(outputs.items(), name_files(outputs), strict=True):
        if not isinstance(value, np.ndarray):
            print_message(f"codl: output {name!r}: got no array, expected one; it is not written")
            continue
        plain = value.astype(str) if value.dtype.kind == "O" else value
        content = io.BytesIO()
        np.save(content, plain, allow_pickle=False)
        write_file(str(folder / file), content.getvalue())


def name_files(names: Iterable[str]) -> list[str]:
    """Return a file name for each output: its own where a file can have it, and no two the same."""
    found: dict[str, None] = {}
    for name in names:
        plain = "".join("_" if one in "/\\" or not one.isprintable() else one for one in name)
        stem = plain.encode()[:_LONGEST_NAME_BYTES].decode(errors="ignore")
        counted = (f"{stem}.npy", *(f"{stem}_{count}.npy" for count in range(2, len(found) + 3)))
        found[next(file for file in counted if file not in found)] = None
    return list(found)


def _format(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}"
    return "x".join(map(str, value)) if isinstance(value, list) else str(value)
