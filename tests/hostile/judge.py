"""What becomes of one case in codl, and whether ONNX Runtime agrees."""

import contextlib
import os
import shutil
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

import codl
from tests.hostile.case import Case, Link

TOLERANCE = 1e-4
"""Of the largest number of a tensor, as for networks."""
HALF_TOLERANCE = 4 * float(np.finfo(np.float16).eps)
UNSTABLE = 10.0
"""An error so many times that of ONNX Runtime's own answers to almost the same numbers is the model's."""
SECRET = b"secret" * 3
DEVICES = ("intel-cpu", "pocl-cpu")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a case, in a word of `OUTCOMES`."""

    kind: str
    text: str = ""


FAULTS = ("wrong", "alone", "picky", "foreign", "crash", "time", "memory")
OUTCOMES: Mapping[str, str] = {
    "right": "the numbers of ONNX Runtime, or of ONNX's reference where that refuses",
    "refused": "a CodlError, where ONNX Runtime refuses too",
    "unjudged": "numbers, where neither ONNX Runtime nor ONNX's reference has any",
    "unstable": "other numbers, as ONNX Runtime has for inputs that differ in the seventh digit",
    "alone": "numbers, where ONNX Runtime refuses and ONNX's reference has others",
    "picky": "a CodlError, where ONNX Runtime runs",
    "wrong": "other numbers than ONNX Runtime",
    "foreign": "an exception that is no CodlError",
    "crash": "the process died",
    "time": "longer than the limit",
    "memory": "more memory than the limit",
}


def lay_out(case: Case, folder: Path) -> str | bytes:
    """Write a case's files into an empty folder of its own and return the model's path, or its bytes."""
    home = folder / "model"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    (folder / "secret.bin").write_bytes(SECRET)
    for name, content in case.files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            _make_link(path, content)
    if not case.is_file:
        return case.content
    (home / "model.onnx").write_bytes(case.content)
    return str(home / "model.onnx")


def _make_link(path: Path, link: Link) -> None:
    if link.is_pipe:
        os.mkfifo(path)
    elif link.size:
        with path.open("wb") as file:
            file.truncate(link.size)
    else:
        path.symlink_to(link.to)


def run_codl(case: Case, model: str | bytes) -> tuple[Outcome, list[Any]]:
    """Return what codl makes of a case; of kind "right" if it runs, and then its outputs."""
    options = codl.SessionOptions(warm_up="block")
    options.devices = DEVICES if case.is_pair else DEVICES[:1]
    options.intra_op_num_threads = 1
    options.planner = "even" if case.is_pair else f"single:{DEVICES[0]}"
    try:
        with codl.InferenceSession(model, options) as session:
            return Outcome(kind="right"), session.run(None, case.feeds)
    except codl.CodlError as error:
        return Outcome(kind="refused", text=f"{type(error).__name__}: {str(error)[:600]}"), []
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        return Outcome(kind="foreign", text=f"{type(error).__name__} at {where}: {str(error)[:400]}"), []


def judge(case: Case, model: str | bytes, outcome: Outcome, outputs: Sequence[Any]) -> Outcome:
    """Return the outcome in the light of what ONNX Runtime does."""
    try:
        names, wanted = run_onnxruntime(model, case.feeds)
    except Exception as error:  # its errors have no common base but this one
        if outcome.kind != "right":
            return outcome
        text = f"{type(error).__name__}: {error}"[:400]
        return Outcome(kind=compare_with_reference(case, model, outputs), text=text)
    if outcome.kind == "refused":
        return Outcome(kind="picky", text=outcome.text)
    if outcome.kind != "right":
        return outcome
    if len(outputs) != len(wanted):
        return Outcome(kind="wrong", text=f"got {len(outputs)} outputs, expected {len(wanted)}")
    errors = [find_error(*pair, case.spreads_nan) for pair in zip(outputs, wanted, strict=True)]
    if max(errors, default=0.0) <= 1.0:
        return outcome
    noise = [1.0] * len(wanted)
    for others in vary(model, case.feeds):
        found = (find_error(*pair, case.spreads_nan) for pair in zip(others, wanted, strict=True))
        noise = [max(pair) for pair in zip(noise, found, strict=True)]
    worst = max(range(len(errors)), key=lambda index: errors[index] / min(noise[index], 1e30))
    is_noise = errors[worst] <= UNSTABLE * noise[worst] and noise[worst] > 1.0
    text = f"output {names[worst]!r}: {describe(outputs[worst])}, expected {describe(wanted[worst])}, "
    text += f"error {errors[worst]:.3g} tolerances, noise {noise[worst]:.3g}"
    return Outcome(kind="unstable" if is_noise else "wrong", text=text)


def compare_with_reference(case: Case, model: str | bytes, outputs: Sequence[Any]) -> str:
    """Return the kind of outcome by the numbers of ONNX's own evaluator."""
    try:
        proto = onnx.load(model) if isinstance(model, str) else onnx.ModelProto.FromString(model)
        wanted = ReferenceEvaluator(proto).run(None, dict(case.feeds))
    except Exception:  # it is made of numpy, which raises anything
        return "unjudged"
    pairs = zip(outputs, wanted, strict=False)
    is_right = len(outputs) == len(wanted) and all(find_error(*p, case.spreads_nan) <= 1.0 for p in pairs)
    return "right" if is_right else "alone"


def run_onnxruntime(
    model: str | bytes, feeds: Mapping[str, Any], *, is_optimized: bool = False
) -> tuple[list[str], list[Any]]:
    """Return ONNX Runtime's outputs and their names."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    if not is_optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return names, session.run(None, dict(feeds))


def vary(model: str | bytes, feeds: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
    """Yield ONNX Runtime's outputs of almost the same feeds, and those of its optimized graph."""
    rng = np.random.default_rng(0)
    for scale in (1e-6, -1e-6, 1e-6):
        changed = {
            name: (value * (1 + scale * rng.random(value.shape))).astype(value.dtype)
            if value.dtype.kind == "f"
            else value
            for name, value in feeds.items()
        }
        yield from _try(model, changed)
    yield from _try(model, feeds, is_optimized=True)


def _try(
    model: str | bytes, feeds: Mapping[str, Any], *, is_optimized: bool = False
) -> Iterator[Sequence[Any]]:
    with contextlib.suppress(Exception):  # numbers that it can do nothing with say nothing
        yield run_onnxruntime(model, feeds, is_optimized=is_optimized)[1]


def find_error(value: Any, wanted: Any, spreads_nan: bool = False) -> float:
    """Return how far a value is from the wanted one, in tolerances; infinite for another type or shape."""
    if not isinstance(wanted, np.ndarray):
        is_alike = isinstance(value, type(wanted)) and (wanted is None or len(value) == len(wanted))
        if wanted is None or not is_alike or isinstance(wanted, dict):
            return 0.0 if is_alike and (wanted is None or value == wanted) else float("inf")
        return max((find_error(*pair) for pair in zip(value, wanted, strict=True)), default=0.0)
    if not isinstance(value, np.ndarray) or value.dtype != wanted.dtype or value.shape != wanted.shape:
        return float("inf")
    if wanted.dtype.kind not in "fiub":
        return 0.0 if np.array_equal(value, wanted) else float("inf")
    with np.errstate(all="ignore"):
        return _find_distance(value, wanted, spreads_nan)


def _find_distance(value: Any, wanted: Any, spreads_nan: bool) -> float:
    tolerance = HALF_TOLERANCE if value.dtype == np.float16 else TOLERANCE
    value, wanted = value.astype(np.float64), wanted.astype(np.float64)
    is_finite = np.isfinite(wanted) & (np.isfinite(value) if spreads_nan else True)
    if not spreads_nan and not np.array_equal(value[~is_finite], wanted[~is_finite], equal_nan=True):
        return float("inf")
    if spreads_nan and np.isfinite(value[~np.isfinite(wanted)]).any():
        return float("inf")
    scale = np.abs(wanted[is_finite]).max(initial=0.0) or 1.0
    found = np.abs(value[is_finite] - wanted[is_finite]).max(initial=0.0) / scale / tolerance
    return float(found) if np.isfinite(found) else float("inf")


def describe(value: Any) -> str:
    """Return a short description of a value."""
    if isinstance(value, np.ndarray):
        numbers = np.array2string(value.ravel()[:4], precision=4, separator=" ")
        return f"{value.dtype}{list(value.shape)} {numbers}"
    return f"{type(value).__name__} {str(value)[:60]}"
