"""The timeline of a plan as a picture: a lane for each device, chains shaded, transfers drawn."""

import math
from pathlib import Path

from codl.plan.timeline import HOST_TRACK, Span
from codl.report.inspection import Inspection, format_us
from codl.report.raster import Canvas, Colour, fit_text, measure_text

_WIDTH, _LEFT, _RIGHT, _TOP, _LANE, _BOTTOM = 1600, 230, 30, 118, 84, 58
_BACK, _INK, _SOFT, _LINE = (255, 255, 255), (22, 26, 34), (90, 99, 114), (223, 227, 234)
_BANDS = ((238, 241, 246), (226, 231, 240))
_WAIT, _SHARE = (154, 163, 178), (180, 71, 155)
_DEVICES = ((47, 111, 222), (217, 115, 26), (18, 144, 124), (143, 91, 209), (176, 132, 42), (199, 74, 107))


def draw_timeline(inspection: Inspection) -> bytes:
    """Return a PNG file of 1600 pixels' width: what was measured, else what is predicted."""
    spans = inspection.measured or inspection.timeline
    used = {span.track for span in spans}
    tracks = [*inspection.devices, *([HOST_TRACK] if HOST_TRACK in used else [])]
    canvas = Canvas(_WIDTH, _TOP + _LANE * len(tracks) + _BOTTOM, _BACK)
    _Picture(canvas, inspection, tuple(spans), tuple(tracks)).draw()
    return canvas.to_png()


class _Picture:
    def __init__(
        self, canvas: Canvas, inspection: Inspection, spans: tuple[Span, ...], tracks: tuple[str, ...]
    ) -> None:
        self._canvas, self._inspection, self._spans, self._tracks = canvas, inspection, spans, tracks
        self._end_us = max((span.start_us + span.duration_us for span in spans), default=0.0) or 1.0

    def draw(self) -> None:
        """Draw everything, from back to front."""
        self._draw_title()
        self._draw_bands()
        self._draw_axis()
        for place, track in enumerate(self._tracks):
            top = _TOP + place * _LANE
            self._canvas.write(fit_text(track, _LEFT - 40), 24, top + _LANE / 2 - 13, _INK)
            self._canvas.fill(_LEFT, top + _LANE - 1, _WIDTH - _RIGHT, top + _LANE, _LINE)
        for span in self._spans:
            if span.track in self._tracks:
                self._draw_span(span)

    def _x(self, us: float) -> float:
        return _LEFT + us / self._end_us * (_WIDTH - _LEFT - _RIGHT)

    def _draw_title(self) -> None:
        inspection, totals = self._inspection, self._inspection.totals
        kind = "measured" if inspection.measured else "predicted"
        time_us = totals.measured_us if inspection.measured else totals.predicted_us
        words = [f"{Path(inspection.model).name}: {format_us(time_us)} {kind}"]
        if time_us and totals.best_single_us:
            words.append(f"{totals.best_single_us / time_us:.2f}× the speed of {totals.best_single} alone")
        if time_us and totals.ideal_us:
            words.append(f"{time_us / totals.ideal_us:.2f}× the time of the no-overhead ideal")
        self._canvas.write(fit_text(words[0], _WIDTH - 48), 24, 18, _INK)
        self._canvas.write(fit_text(" · ".join(words[1:]), _WIDTH - 48), 24, 50, _SOFT)

    def _draw_bands(self) -> None:
        """Shade chains, from the first launch of each to its last, and tell how each is cut."""
        found: dict[int, tuple[float, float]] = {}
        for span in self._spans:
            if span.step is not None and span.kind == "launch":
                low, high = found.get(span.step, (math.inf, 0.0))
                end = span.start_us + span.duration_us
                found[span.step] = (min(low, span.start_us), max(high, end))
        chains = [step for step in sorted(found) if self._inspection.steps[step].kind == "chain"]
        for place, step in enumerate(chains):
            left, right = (self._x(us) for us in found[step])
            bottom = _TOP + _LANE * len(self._tracks)
            self._canvas.fill(left, _TOP - 34, right, bottom, _BANDS[place % len(_BANDS)])
            name = self._inspection.steps[step].axis_name or ""
            count = len(self._inspection.steps[step].nodes)
            long = f"{name} · {count}" if count > 1 else name
            text = long if measure_text(long) < right - left - 8 else name
            if measure_text(text) < right - left - 8:
                self._canvas.write(text, left + 6, _TOP - 32, _SOFT)

    def _draw_axis(self) -> None:
        rough = self._end_us / 8
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
        bottom = _TOP + _LANE * len(self._tracks)
        for tick in range(int(self._end_us / step) + 1):
            x = self._x(tick * step)
            self._canvas.fill(x, _TOP, x + 1, bottom + 10, _LINE)
            label = format_us(tick * step)
            if x + measure_text(label) < _WIDTH:
                self._canvas.write(label, x + 3, bottom + 12, _SOFT)

    def _draw_span(self, span: Span) -> None:
        top = _TOP + self._tracks.index(span.track) * _LANE
        left = self._x(span.start_us)
        right = max(self._x(span.start_us + span.duration_us), left + 0.7)
        is_work = span.kind in {"launch", "host"}
        inset = 14 if is_work else 30
        self._canvas.fill(left, top + inset, right, top + _LANE - inset, self._find_colour(span))
        if is_work:
            if right - left > 4:
                self._canvas.fill(right - 1, top + inset, right, top + _LANE - inset, _BACK)
            for text in (span.name, span.name.rpartition("/")[2]):
                if text and measure_text(text) <= right - left - 12:
                    self._canvas.write(text, left + 6, top + _LANE / 2 - 13, _BACK)
                    break
        if span.other in self._tracks and span.track != span.other:
            self._draw_tie(span, left, right)

    def _draw_tie(self, span: Span, left: float, right: float) -> None:
        """Draw what connects a transfer with the device that it is from or for."""
        assert span.other is not None
        ends = sorted(
            _TOP + self._tracks.index(name) * _LANE + _LANE / 2 for name in (span.track, span.other)
        )
        middle = (left + right) / 2
        self._canvas.fill(middle - 0.8, ends[0], middle + 0.8, ends[1], _SHARE)

    def _find_colour(self, span: Span) -> Colour:
        if span.kind in {"launch", "host"}:
            devices = self._inspection.devices
            return _DEVICES[devices.index(span.track) % len(_DEVICES)] if span.track in devices else _SOFT
        return _WAIT if span.kind == "wait" else _SHARE
