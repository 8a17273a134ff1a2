"""A tuning session: shape after shape within a budget, each measurement logged, the database up to date."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from codl.catalog.candidates import iterate_candidates
from codl.catalog.choose import choose
from codl.catalog.database import Entry, KernelDatabase, entry_to_json, read_entry
from codl.catalog.source import digest_sources
from codl.catalog.spec import Implementation, Selection
from codl.catalog.stored import user_path
from codl.catalog.table import IMPLEMENTATIONS
from codl.devices.inner_loops import Loop
from codl.devices.opencl import Device
from codl.errors import CodlError, ProfileError
from codl.machine import DeviceInfo
from codl.tuner.measurement import Measurement, MeasurementLog
from codl.tuner.prober import OutOfTimeError, Prober, digest_candidate, limit_seconds
from codl.tuner.reference import compute_reference
from codl.tuner.report import ShapeReport, State, TuneReport
from codl.tuner.search import SearchLimits, SearchResult, search
from codl.tuner.store import read_user_database, write_database
from codl.tuner.trial import Trial
from codl.tuner.workbench import Workbench
from codl.tuner.workload import Shape

LOG_NAME = "measurements.jsonl"
_NEIGHBOURS = 2
_NEIGHBOUR_LIMIT = 3.0
"""Doublings up to which another shape's winner is measured first."""


@dataclass(slots=True, kw_only=True)
class Session:
    """Arguments of a tuning session that have defaults."""

    budget_seconds: float = 600.0
    rows: tuple[Implementation, ...] = IMPLEMENTATIONS
    limits: SearchLimits = field(default_factory=SearchLimits)
    on_shape: Callable[[ShapeReport], None] = lambda _: None
    """Called with the report of each shape."""


def plan_tuning(
    info: DeviceInfo, shapes: Iterable[Shape], rows: tuple[Implementation, ...] = IMPLEMENTATIONS
) -> TuneReport:
    """Return the shapes that a session would tune, without touching the device."""
    path = user_path(info)
    known = read_user_database(path, info)
    reports = []
    for shape in shapes:
        candidates = iterate_candidates(shape.node, shape.graph, info, rows)
        kernels = Counter(one.implementation.name for one in candidates)
        count = kernels.total()
        entry = known.find_exact(shape.key)
        state = State.PLAIN if count < 2 else State.KNOWN if entry else State.LEFT
        reports.append(
            ShapeReport(
                shape=str(shape.key),
                count=shape.count,
                candidates=count,
                state=state,
                measured=0 if entry is None else entry.measured,
                entry=entry,
                kernels=tuple(kernels.items()),
                most_seconds=limit_seconds(count, SearchLimits()) if state is State.LEFT else 0.0,
            )
        )
    return TuneReport(device=info.name, path=str(path), seconds=0.0, shapes=tuple(reports))


def tune(device: Device, shapes: Sequence[Shape], session: Session | None = None) -> TuneReport:
    """Find the best kernels for some shapes on a device and keep them in the user's database.

    Every measurement is in a log next to the database before the next one begins: a session that was killed
    continues from the log when it is started again.

    Args:
        device: The device.
        shapes: What to tune, in the order of importance.
        session: Budget, kernels and limits.

    Raises:
        ProfileError: The database or the log cannot be read or written, or another tuner is at work.
    """
    session = session or Session()
    start = time.monotonic()
    path = user_path(device.info)
    known = read_user_database(path, device.info)
    with MeasurementLog(path.with_name(LOG_NAME)) as log:
        tuner = _Tuner(device, log, known, path, session, deadline=start + session.budget_seconds)
        reports = []
        for shape in shapes:
            report = tuner.tune_shape(shape)
            session.on_shape(report)
            reports.append(report)
    seconds = time.monotonic() - start
    return TuneReport(device=device.info.name, path=str(path), seconds=seconds, shapes=tuple(reports))


class _Tuner:
    def __init__(
        self,
        device: Device,
        log: MeasurementLog,
        known: KernelDatabase,
        path: Path,
        session: Session,
        *,
        deadline: float,
    ) -> None:
        self._device, self._log, self._path, self._session = device, log, path, session
        self._deadline = deadline
        self._entries = dict(known.entries)
        self._digests = {row.name: digest_candidate(row, device.info) for row in session.rows}
        self._done: dict[str, tuple[Entry, Mapping[str, str]]] = {}
        """Results of earlier sessions by shape, and the digests of all rows that they were chosen from."""
        self._quick: dict[str, dict[str, Measurement]] = {}
        self._bench: Workbench | None = None
        self._loops: dict[Loop, float] = {}
        self._read_log()

    def tune_shape(self, shape: Shape) -> ShapeReport:
        """Tune one shape, unless that was done before or there is no time."""
        name, info = str(shape.key), self._device.info
        candidates = tuple(iterate_candidates(shape.node, shape.graph, info, self._session.rows))

        def report(state: State, **what: Any) -> ShapeReport:
            return ShapeReport(shape=name, count=shape.count, candidates=len(candidates), state=state, **what)

        if len(candidates) < 2:
            return report(State.PLAIN, note="nothing to choose from")
        known, rows = self._done.get(name, (None, None))
        if known is not None and rows == self._digest(candidates):
            return report(State.KNOWN, entry=known, measured=known.measured)
        if time.monotonic() >= self._deadline:
            return report(State.LEFT)
        try:
            entry = self._search(shape, candidates)
        except OutOfTimeError:
            return report(State.LEFT, note="begun")
        except ProfileError:
            raise
        except CodlError as error:
            return report(State.FAILED, note=" ".join(str(error).split()))
        if entry is None:
            return report(State.PLAIN, note="no reference to judge results by")
        return report(State.TUNED, entry=entry, measured=entry.measured)

    def _search(self, shape: Shape, candidates: Sequence[Selection]) -> Entry | None:
        trial = Trial(shape.with_constants(), self._device)
        expected = compute_reference(trial.graph, trial.feeds)
        if expected is None:
            return None
        default = choose(shape.node, shape.graph, self._device.info, rows=self._session.rows)
        prober = Prober(
            trial,
            self._open_bench(),
            expected=expected,
            default=default,
            shape=str(shape.key),
            known=self._quick.get(str(shape.key), {}),
            record=self._log.add,
            deadline=self._deadline,
        )
        first = self._find_neighbours(shape, candidates)
        found = search(prober, candidates, default=default, first=first, limits=self._session.limits)
        return self._keep(shape, found, prober, self._digest(candidates))

    def _digest(self, candidates: Iterable[Selection]) -> dict[str, str]:
        """Return the digest of every row among some candidates."""
        return {one.implementation.name: self._digests[one.implementation.name] for one in candidates}

    def _keep(self, shape: Shape, found: SearchResult, prober: Prober, rows: Mapping[str, str]) -> Entry:
        quiet = prober.quiet_seconds
        entry = Entry(
            key=shape.key,
            implementation=found.winner.implementation.name,
            parameters=found.winner.parameters,
            seconds=found.ratio * quiet,
            bound_seconds=prober.count_bound(found.winner) * quiet,
            default_seconds=None if found.default_ratio is None else found.default_ratio * quiet,
            candidates=found.candidates,
            measured=found.measured,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        self._open_bench().count_win(entry.implementation, entry.parameters)
        self._log.note("result", {"entry": entry_to_json(entry), "rows": rows})
        self._entries[shape.key] = entry
        self._device.store_programs()
        database = KernelDatabase(entries=self._entries)
        write_database(self._path, database, self._device.info, self._session.rows)
        return entry

    def _open_bench(self) -> Workbench:
        """Return the references and peaks, measured when they are first needed."""
        if self._bench is None:
            self._bench = Workbench.open(self._device)
            self._bench.recall_loops(self._loops)
            self._bench.record_loop = self._record_loop
            for entry in self._entries.values():
                self._bench.count_win(entry.implementation, entry.parameters)
            peaks = self._bench.peaks
            self._log.note(
                "peaks",
                {
                    "driver_version": self._device.info.driver_version,
                    "flops": {str(lanes): rate for lanes, rate in peaks.flops.items()},
                    "bandwidth": peaks.bandwidth,
                    "reference_seconds": dict(peaks.reference_seconds),
                },
            )
        return self._bench

    def _record_loop(self, loop: Loop, share: float) -> None:
        values = {"loop": loop.source, "depth": loop.depth, "parameters": dict(loop.parameters)}
        self._log.note("loop", {**values, "digest": self._digest_loop(loop.source), "share": share})

    def _digest_loop(self, source: str) -> str:
        """Return what a loop's rate depends on: its source, the driver's version."""
        return f"{digest_sources(source)} {self._device.info.driver_version}"

    def _read_loop(self, values: Mapping[str, Any]) -> None:
        """Take up the rate of a loop that has not changed since; anything else is passed over."""
        source, depth, parameters, share = map(values.get, ("loop", "depth", "parameters", "share"))
        if not isinstance(source, str) or not isinstance(depth, int):
            return
        if not isinstance(parameters, dict) or not isinstance(share, float):
            return
        loops = {row.inner_loop for row in self._session.rows}
        if source not in loops or values.get("digest") != self._digest_loop(source):
            return
        if 0 < share <= 1 and all(type(value) is int for value in parameters.values()):
            self._loops[Loop(source, tuple(parameters.items()), depth)] = share

    def _find_neighbours(self, shape: Shape, candidates: Sequence[Selection]) -> list[Selection]:
        """Return the candidates that won for this shape before its kernels changed, or for shapes nearby."""
        near = KernelDatabase(entries=self._entries).find_nearest(shape.key, limit=_NEIGHBOUR_LIMIT)
        wanted = [(entry.implementation, dict(entry.parameters)) for entry in near]
        found = [
            one
            for name, parameters in wanted
            for one in candidates
            if one.implementation.name == name and dict(one.parameters) == parameters
        ]
        return list({str(one): one for one in found}.values())[:_NEIGHBOURS]

    def _read_log(self) -> None:
        """Add the measurements that earlier sessions made of the present kernels."""
        for measurement in self._log.measurements():
            is_current = self._digests.get(measurement.implementation) == measurement.digest
            if is_current and measurement.stage == "quick":
                known = self._quick.setdefault(measurement.shape, {})
                known[measurement.candidate] = measurement
        for values in self._log.lines():
            if values.get("what") == "loop":
                self._read_loop(values)
            rows = values.get("rows")
            if values.get("what") != "result" or not isinstance(rows, dict):
                continue
            try:
                entry = read_entry(values.get("entry"), "result")
            except ProfileError:
                continue
            digest = self._digests.get(entry.implementation)
            if digest is not None and rows.get(entry.implementation) == digest:
                self._done[str(entry.key)] = entry, rows
                self._entries[entry.key] = entry
