"""What takes long to import, imported when it is first needed: ONNX Runtime answers before."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codl.options import SessionOptions
    from codl.session.request import PlanRequest
    from codl.session.variants import Variant


def resolve_late(options: "SessionOptions") -> "PlanRequest":
    """Return what `resolve_request` returns."""
    from codl.session.resolving import resolve_request

    return resolve_request(options)


def compile_late(*args: Any, **options: Any) -> "Variant":
    """Return what `compile_variant` returns."""
    from codl.session.variants import compile_variant

    return compile_variant(*args, **options)
