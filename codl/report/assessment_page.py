"""An assessment as one HTML file without a script: every word of it is escaped."""

import html
from pathlib import PurePath

from codl.assets import read_report_asset
from codl.report.assessment import Assessment, Layer
from codl.report.html import digest_source, fill_template
from codl.report.inspection import format_us

_MOST_STEPS = 250
"""Widths that bars can have: a policy that allows no inline styles allows classes only."""


def render_assessment(found: Assessment) -> str:
    """Return the page as text."""
    widths = "".join(f".w{step}{{width:{step * 100 / _MOST_STEPS:g}%}}" for step in range(_MOST_STEPS + 1))
    style = f"{read_report_asset('page.css')}{widths}\n"
    name = PurePath(found.model).name
    parts = {
        "policy": f"default-src 'none'; style-src '{digest_source(style)}'; img-src data:; base-uri 'none'",
        "title": _text(f"{name} – codl analyze"),
        "style": style,
        "model": _text(name),
        "summary": _text(
            f"{found.operators} operators, {len(found.layers)} of them unlike each other, over "
            f"{', '.join(found.devices)}; planned by {found.planner or 'hand'}."
        ),
        "tiles": "".join(_tile(*tile) for tile in _list_tiles(found)),
        "gaps": "".join(_list_gap_rows(found)),
        "advice": "".join(f"<li>{_text(line)}</li>" for line in found.advice) or "<li>Nothing to gain.</li>",
        "layers": "".join(_layer_rows(layer) for layer in found.layers),
    }
    return fill_template(read_report_asset("assessment.html"), parts)


def _list_tiles(found: Assessment) -> list[tuple[str, str]]:
    return [
        (f"{found.ratio:.2f}", "of the lower bound's speed; 1 leaves nothing to gain"),
        (format_us(found.taken_us), "measured" if found.is_measured else "predicted"),
        (format_us(found.bound_us), "lower bound: all devices, best kernels"),
        *((format_us(bound.sequential_us), f"best kernels, all on {bound.device}") for bound in found.bounds),
    ]


def _tile(value: str, label: str) -> str:
    return f'<div class="tile"><b>{_text(value)}</b><span>{_text(label)}</span></div>'


def _list_gap_rows(found: Assessment) -> list[str]:
    """Return the rows of a waterfall: each gap begins where what is above it ends."""
    shown = [gap for gap in found.gaps if abs(gap.us) > found.taken_us * 5e-4]
    longest = max(found.taken_us, found.bound_us)
    rows = [_gap_row("lower bound", 0.0, found.bound_us, longest, colour="p-compute")]
    end = found.bound_us
    for gap in shown:
        colour = "p-imbalance" if gap.us > 0 else "p-repeated"
        rows.append(_gap_row(gap.name, end, gap.us, longest, colour=colour))
        end += gap.us
    taken = "measured" if found.is_measured else "predicted"
    return [*rows, _gap_row(taken, 0.0, found.taken_us, longest, colour="p-plain")]


def _gap_row(name: str, start_us: float, us: float, longest_us: float, *, colour: str) -> str:
    left = _find_width(min(start_us, start_us + us), longest_us)
    width = max(_find_width(abs(us), longest_us), 1)
    return (
        f'<tr><th scope="row">{_text(name)}</th><td><div class="track"><i class="w{left}"></i>'
        f'<i class="{colour} w{width}"></i></div></td><td class="value">{_text(format_us(us))}</td></tr>'
    )


def _find_width(us: float, longest: float) -> int:
    return max(0, min(_MOST_STEPS, round(us / longest * _MOST_STEPS))) if longest > 0 else 0


def _layer_rows(layer: Layer) -> str:
    count = f" ×{len(layer.operators)}" if len(layer.operators) > 1 else ""
    shape = "×".join(map(str, layer.shape))
    return "".join(
        "<tr>"
        + "".join(
            f"<td>{_text(cell)}</td>"
            for cell in (
                layer.operators[0] + count,
                layer.kind,
                shape,
                kernel.device,
                kernel.kernel,
                format_us(kernel.us),
                kernel.best_kernel if kernel.best_us < kernel.us else "the same",
                format_us(kernel.best_us),
            )
        )
        + "</tr>"
        for kernel in layer.kernels
    )


def _text(text: str) -> str:
    return html.escape(text.encode(errors="replace").decode())
