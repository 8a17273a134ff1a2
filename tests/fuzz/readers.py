"""What reads files of users, each as a function of bytes that raises nothing but `CodlError`."""

import hashlib
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from codl.cache.folders import CacheFolder
from codl.cache.journal import read_journal
from codl.cache.sealed import PAGE_BYTES, Array, SealedFile, write_sealed
from codl.catalog.database import format_database, read_database
from codl.errors import CodlError
from codl.frontend import load_graph
from codl.frontend.graph_cache import read_graph
from codl.frontend.graph_text import format_graph
from codl.ir.graph import Graph
from codl.latency.files import PROFILE_FILE, load_profile, save_profile
from codl.partitioner.even import plan_even
from codl.plan.check import check_plan
from codl.plan.single import plan_single
from codl.plan.steps import Plan
from codl.session.kept_plans import read_plans
from tests.catalog.nodes import conv, device_info
from tests.catalog.test_database import database_of, entry_for
from tests.frontend.test_damaged_models import mixed_model, moving_model
from tests.graphs import host_between, residual_block
from tests.latency.profiles import make_profile

KEPT = Path(__file__).parent / "kept"
"""Bytes that once raised something else, by reader."""
_DEVICES = ("intel-cpu", "pocl-cpu")
_KEY = "0" * 64
_PAGES = 2 * PAGE_BYTES
_INFO = replace(device_info(16), name="here-cpu")


@cache
def _graphs() -> tuple[Graph, ...]:
    return residual_block(), host_between()


_CONTENTS: Mapping[bytes, tuple[str, Callable[[SealedFile], object]]] = {
    b"g": ("graph", read_graph),
    b"p": ("plan", lambda entry: read_plans(entry, _graphs()[0])),
}


@dataclass(frozen=True, kw_only=True)
class Reader:
    """What is fuzzed."""

    read: Callable[[bytes, Path], object]
    """Reads bytes, with a folder for files."""
    make_seeds: Callable[[], Iterator[bytes]]
    is_json: bool = False
    """Whether its bytes are JSON after the first byte, or parts of it between marks."""


def read_model(data: bytes, _: Path) -> None:
    """Read a model."""
    load_graph(data)


def make_models() -> Iterator[bytes]:
    """Yield small models of most operators that have kernels."""
    for build in (mixed_model, moving_model):
        for opset in (7, 9, 13, 17):
            yield build(opset=opset, ir_version=8).SerializeToString()


def read_plan(data: bytes, folder: Path) -> None:
    """Read a plan and check it against a network."""
    path = folder / "plan.json"
    path.write_bytes(data)
    plan = Plan.load(path)
    for graph in _graphs():
        check_plan(plan, graph)


def make_plans() -> Iterator[bytes]:
    """Yield plans of one device, of two, and of the host."""
    for graph in _graphs():
        yield json.dumps(plan_even(graph, devices=_DEVICES).to_json()).encode()
        yield json.dumps(plan_single(graph, device=_DEVICES[0]).to_json()).encode()


def read_profile(data: bytes, folder: Path) -> None:
    """Read a profile."""
    (folder / PROFILE_FILE).write_bytes(data)
    load_profile(folder)


def make_profiles() -> Iterator[bytes]:
    """Yield a profile with everything in it, of three kernels."""
    profile = make_profile(_INFO)
    rows = dict(list(profile.rows.items())[:3])
    with tempfile.TemporaryDirectory() as folder:
        save_profile(replace(profile, rows=rows), Path(folder))
        yield (Path(folder) / PROFILE_FILE).read_bytes()


def read_kernels(data: bytes, folder: Path) -> None:
    """Read a database of kernels, and a journal of measurements."""
    path = folder / "kernels.json"
    path.write_bytes(data)
    list(read_journal(path))
    read_database(path, _INFO)


def make_kernels() -> Iterator[bytes]:
    """Yield a database of two shapes."""
    database = database_of(entry_for(conv(16, 64, 28)), entry_for(conv(8, 8, 8)))
    yield format_database(database, _INFO).encode()


def read_entry(data: bytes, folder: Path) -> None:
    """Read a cache entry: its bytes, its header, or a graph or a plan that is sealed well."""
    kind, content = data[:1], data[1:]
    os.environ["CODL_CACHE_DIR"] = str(folder)
    path = folder / "fuzz" / f"{_KEY}.codl"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with path.open("wb") as file:
        if kind in _CONTENTS:
            name, use = _CONTENTS[kind]
            sealed: dict[str, Array] = {name: np.frombuffer(content, np.uint8)}
            write_sealed(file, key=_KEY, arrays=sealed, about={})
        else:
            use = SealedFile.check
            head = f"codl-sealed 1 {hashlib.sha256(content).hexdigest()} {len(content)}\n".encode()
            file.write(head + content + bytes(_PAGES) if kind == b"h" else content)
    path.chmod(0o600)
    CacheFolder("fuzz", limit_bytes=1 << 20).read(_KEY, use)


def make_entries() -> Iterator[bytes]:
    """Yield an entry's bytes, its header, a graph and a list of plans."""
    arrays: dict[str, Array] = {"a": np.zeros(3, np.uint8), "b": np.ones((2, 3), np.float32)}
    file = io.BytesIO()
    write_sealed(file, key=_KEY, arrays=arrays, about={"what": "a seed"})
    yield b"r" + file.getvalue()
    first, _, rest = file.getvalue().partition(b"\n")
    told = json.loads(rest[: int(first.split()[-1])])
    yield b"h" + json.dumps({**told, "bytes": _PAGES}).encode()
    for graph in _graphs():
        yield b"g" + format_graph(graph).encode()
    yield b"p" + json.dumps([plan_even(_graphs()[0], devices=_DEVICES).to_json()]).encode()


READERS: dict[str, Reader] = {
    "model": Reader(read=read_model, make_seeds=make_models),
    "plan": Reader(read=read_plan, make_seeds=make_plans, is_json=True),
    "profile": Reader(read=read_profile, make_seeds=make_profiles, is_json=True),
    "kernels": Reader(read=read_kernels, make_seeds=make_kernels, is_json=True),
    "cache": Reader(read=read_entry, make_seeds=make_entries, is_json=True),
}
"""By name, as commands have it."""


def is_refused(reader: Reader, data: bytes, folder: Path) -> bool:
    """Return whether a reader raises a `CodlError`; anything else that it raises passes through."""
    try:
        reader.read(data, folder)
    except CodlError:
        return True
    return False
