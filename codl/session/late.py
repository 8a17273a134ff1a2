"""What takes long to import, imported when it is first needed: ONNX Runtime answers before."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codl.frontend import LoadedModel, Source
    from codl.options import SessionOptions
    from codl.session.known import Declared
    from codl.session.profiling import Profiler
    from codl.session.request import PlanRequest
    from codl.session.shared import Shared
    from codl.session.variants import Variant


def profile_late(prefix: str) -> "Profiler":
    """Return a profiler."""
    from codl.session.profiling import Profiler

    return Profiler(prefix)


def read_late(*args: Any) -> "tuple[Source, Declared]":
    """Return what `read_model` returns."""
    from codl.session.reading import read_model

    return read_model(*args)


def load_late(*args: Any, **options: Any) -> "LoadedModel":
    """Return what `load_source` returns."""
    from codl.frontend import load_source

    return load_source(*args, **options)


def resolve_late(options: "SessionOptions") -> "PlanRequest":
    """Return what `resolve_request` returns."""
    from codl.session.resolving import resolve_request

    return resolve_request(options)


def compile_late(*args: Any, **options: Any) -> "Variant":
    """Return what `compile_variant` returns."""
    from codl.session.variants import compile_variant

    return compile_variant(*args, **options)


def share_late() -> "Shared":
    """Return where variants of one model find what they have in common."""
    from codl.session.shared import Shared

    return Shared()
