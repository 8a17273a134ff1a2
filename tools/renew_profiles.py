"""Renew what ships of devices after an edit that changes no feature.

A profile's row is bound to the files that describe its launches: any edit of those makes it stale, also one
that counts as before. This counts what a profile's rows ask of the workload's layers, whole and cut, in an
older checkout and in this one, with the same parameters. Rows whose kernels are the same and whose features
are equal bit by bit get the digest of today, if the profile was of the older checkout. Kernels are the same
that come out of the C preprocessor alike, with all parameters counted. With `--carry` so do
rows whose kernels were edited: they are marked as carried, and who uses them first measures by how much that
changed their times. Choices of such kernels that were tuned stay as well. Others are left to
`codl profile --stale`.

Example:
    git worktree add ../before HEAD~1 && python tools/renew_profiles.py ../before
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from codl.catalog.database import digest_row
from codl.catalog.layers import parse_layer
from codl.catalog.source import read_source
from codl.catalog.spec import Implementation, Parameters, Selection
from codl.catalog.table import IMPLEMENTATIONS, PAIRS
from codl.devices.opencl import COUNTER_STEP
from codl.ir.boxes import Boxes, Region
from codl.latency.files import PREDICTORS_FILE, load_profile
from codl.latency.profile import digest_implementation
from codl.profiler.samples import describe_boxes
from codl.profiler.workload import load_pairs, load_workload

ROOT = Path(__file__).resolve().parents[1]
Counted = dict[str, list[str]]
"""Row -> its digest, and those of its sources and of its features."""
_PREPROCESSOR = "cpp"
_ROWS = {row.name: row for row in (*IMPLEMENTATIONS, *PAIRS)}


def main() -> int:
    """Renew what can be renewed; print the rows that stay stale."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, metavar="DIR", help="a checkout from before the edit")
    parser.add_argument("--carry", action="store_true", help="keep what was measured with earlier kernels")
    parser.add_argument("--count", type=Path, metavar="CASES", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.count is not None:
        print(json.dumps(count(json.loads(args.count.read_text()))))
        return 0
    for folder in sorted(path.parent for path in ROOT.glob(f"profiles/*/{PREDICTORS_FILE}")):
        profile = load_profile(folder)
        wanted = profile.find_stale()
        stale = [name for name in wanted if name in profile.rows]
        for name in wanted:
            if name not in profile.rows:
                print(f"{folder.name}: {name} is not known")
        if not stale:
            continue
        cases = json.dumps({"profile": str(folder), "cases": list(list_cases(folder, stale))})
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(cases)
            file.flush()
            old, new = (count_in(root, Path(file.name)) for root in (args.before.resolve(), ROOT))
        renew(folder / PREDICTORS_FILE, stale, old, new, carry=args.carry)
    if args.carry:
        old_digests, new_digests = (digest_rows_in(root) for root in (args.before.resolve(), ROOT))
        for path in sorted(ROOT.glob("profiles/*/kernels.json")):
            carry_choices(path, old_digests, new_digests)
    return 0


def list_cases(folder: Path, stale: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield stale rows of a profile with the layers they accept, and the parameters they take today."""
    info = load_profile(folder).info
    rows = [row for name, row in _ROWS.items() if name in stale]
    for layer in (*load_workload(), *load_pairs()):
        graph = layer.make_graph()
        for row in rows:
            has_nodes = len(graph.nodes) == 1 + row.taken
            parameters = row.accepts(graph.nodes[-1], graph, info) if has_nodes else None
            if parameters is not None:
                yield {"row": row.name, "layer": json.loads(layer.key), "parameters": dict(parameters)}


def count_in(root: Path, cases: Path) -> Counted:
    """Return what a checkout counts for cases."""
    told: Counted = ask(root, __file__, str(root), "--count", str(cases))
    return told


def ask(root: Path, *arguments: str) -> Any:
    """Return what Python prints as JSON where it imports the codl of a checkout."""
    found = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(root)},
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(found.stdout)


def count(told: dict[str, Any]) -> Counted:
    """Return what the codl that is imported counts for cases."""
    profile = load_profile(Path(told["profile"]))
    features: dict[str, Any] = {}
    built: dict[str, set[tuple[tuple[str, int], ...]]] = {}
    for case in told["cases"]:
        row, layer = _ROWS[case["row"]], parse_layer(case["layer"])
        whole = Region.whole(layer.output)
        middles = [(axis, length // 3) for axis, length in enumerate(layer.output) if length >= 3]
        cuts = [whole.cut(axis, low, high) for axis, at in middles for low, high in ((0, at), (at, 2 * at))]
        selection = Selection(implementation=row, parameters=case["parameters"])
        boxes = Boxes.of([whole, *cuts])
        found = describe_boxes(layer, selection, boxes, profile.info, are_constants_far=True)
        digest = features.setdefault(row.name, hashlib.sha256())
        built.setdefault(row.name, set()).add(tuple(sorted(case["parameters"].items())))
        digest.update(found.select(profile.rows[row.name].model.features).astype("f8").tobytes())
    return {
        name: [
            digest_implementation(_ROWS[name]),
            digest_kernels(_ROWS[name], sorted(built[name])),
            digest.hexdigest(),
        ]
        for name, digest in features.items()
    }


def digest_kernels(row: Implementation, built: Sequence[tuple[tuple[str, int], ...]]) -> str:
    """Return what names a row's kernels as they are compiled with each of these parameters.

    What a kernel asks of its compiler (kernels/common/cache_line.h) is not looked into. Where there is no C
    preprocessor, an edit of their text is one of the kernels.
    """
    if shutil.which(_PREPROCESSOR) is None:
        return digest_row(row)
    digest = hashlib.sha256()
    for source in (row.source, *row.other_sources):
        for parameters, step in product(built, (0, COUNTER_STEP)):
            digest.update(preprocess(source, {**dict(parameters), "STEAL": step}).encode())
    return digest.hexdigest()


def preprocess(source: str, parameters: Parameters) -> str:
    """Return the tokens of a kernel file, includes put in place and macros replaced."""
    options = [f"-D{name}={value}" for name, value in parameters.items()]
    done = subprocess.run(
        [_PREPROCESSOR, "-P", "-undef", "-w", "-DALIGNED_LOOP=ALIGNED_LOOP", *options],
        input=read_source(source),
        check=True,
        capture_output=True,
        text=True,
    )
    return " ".join(done.stdout.split())


def renew(path: Path, stale: Sequence[str], old: Counted, new: Counted, *, carry: bool) -> None:
    """Write today's digests into a profile where a stale row counts as before; print all that were stale."""
    text = path.read_text()
    rows = json.loads(text)["rows"]
    for name in stale:
        today, before, digest = new.get(name), old.get(name), rows[name]["digest"]
        told, mark = "stays stale", None
        if today is not None and before is not None and before[0] == digest and before[2] == today[2]:
            if before[1] == today[1]:
                told, mark = "renewed", ""
            elif carry:
                told, mark = "carried", "" if rows[name].get("carried") else ',"carried":true'
        if today is not None and mark is not None:
            text = text.replace(
                f'"{name}": {{"digest":"{digest}"', f'"{name}": {{"digest":"{today[0]}"{mark}'
            )
        print(f"{path.parent.name}: {name} {told}")
    path.write_text(text)


def digest_rows_in(root: Path) -> dict[str, str]:
    """Return what names the kernels of a checkout's rows in databases of tuned kernels."""
    words = "{row.name: digest_row(row) for row in (*IMPLEMENTATIONS, *PAIRS)}"
    script = (
        "import json; from codl.catalog.database import digest_row; "
        f"from codl.catalog.table import IMPLEMENTATIONS, PAIRS; print(json.dumps({words}))"
    )
    told: dict[str, str] = ask(root, "-c", script)
    return told


def carry_choices(path: Path, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Write today's digests of edited kernels into a database whose choices are of the older ones."""
    text = path.read_text()
    for name, digest in json.loads(text)["implementations"].items():
        if digest == old.get(name) != new.get(name, digest):
            text = text.replace(f'"{name}": "{digest}"', f'"{name}": "{new[name]}"')
            print(f"{path.parent.name}: choices of {name} carried")
    path.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
