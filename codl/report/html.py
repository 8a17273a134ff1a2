"""An inspection as one HTML file that loads nothing and that no name in a model can break out of.

Names reach the page as JSON in a block that is never executed, every `<`, `>` and `&` escaped, and the page's
script makes text nodes of them. A content security policy allows exactly the page's own script and style, by
their digests.
"""

import base64
import hashlib
import html
import json

from codl.assets import read_report_asset
from codl.report.inspection import Inspection

_SCRIPTS = ("common.js", "glance.js", "timeline.js", "graph.js", "operators.js", "scatter.js", "main.js")
_ESCAPES = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def render_html(inspection: Inspection, *, made: str = "") -> str:
    """Return the page as text.

    Args:
        inspection: What it shows.
        made: When, where and by what command it was made.
    """
    style = read_report_asset("page.css")
    script = "(() => {\n" + "\n".join(map(read_report_asset, _SCRIPTS)) + "})();\n"
    parts = {
        "policy": _make_policy(style=style, script=script),
        "title": html.escape(f"{_clean(inspection.model)} – codl inspect"),
        "made": html.escape(_clean(made)),
        "style": style,
        "data": embed_json(inspection.to_json()),
        "script": script,
    }
    return fill_template(read_report_asset("page.html"), parts)


def embed_json(value: object) -> str:
    """Return JSON that may stand inside a script element: nothing in it can end the element."""
    return json.dumps(value, separators=(",", ":")).translate(_ESCAPES)


def _make_policy(*, style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src '{digest_source(style)}'; script-src '{digest_source(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def digest_source(text: str) -> str:
    """Return how a content security policy names a style or script by its digest."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def fill_template(template: str, parts: dict[str, str]) -> str:
    """Return the template with its places filled; what fills one is not looked at again."""
    pieces = []
    for piece in template.split("{{"):
        name, closing, rest = piece.partition("}}")
        pieces.append(parts[name] + rest if closing else piece)
    return "".join(pieces)


def _clean(text: str) -> str:
    """Return a text without what cannot be written as UTF-8."""
    return text.encode(errors="replace").decode()
