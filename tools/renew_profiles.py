"""Renew the digests of shipped profiles after an edit that changes no feature.

A profile's row is bound to the files that describe its launches: any edit of those makes it stale, also one
that counts as before. This counts what a profile's rows ask of the workload's layers, whole and cut, in an
older checkout and in this one, with the same parameters. Rows whose kernels are the same and whose features
are equal bit by bit get the digest of today, if the profile was of the older checkout. Others are left to
`codl profile --stale`.

Example:
    git worktree add ../before HEAD~1 && python tools/renew_profiles.py ../before
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from codl.catalog.layers import parse_layer
from codl.catalog.source import read_source
from codl.catalog.spec import Selection
from codl.catalog.table import IMPLEMENTATIONS, PAIRS
from codl.ir.boxes import Boxes, Region
from codl.latency.files import PREDICTORS_FILE, load_profile
from codl.latency.profile import digest_implementation
from codl.profiler.samples import describe_boxes
from codl.profiler.workload import load_pairs, load_workload

ROOT = Path(__file__).resolve().parents[1]
Counted = dict[str, list[str]]
"""Row -> its digest, and those of its sources and of its features."""
_ROWS = {row.name: row for row in (*IMPLEMENTATIONS, *PAIRS)}


def main() -> int:
    """Renew what can be renewed; print the rows that stay stale."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, metavar="DIR", help="a checkout from before the edit")
    parser.add_argument("--count", type=Path, metavar="CASES", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.count is not None:
        print(json.dumps(count(json.loads(args.count.read_text()))))
        return 0
    for folder in sorted(path.parent for path in ROOT.glob(f"profiles/*/{PREDICTORS_FILE}")):
        stale = load_profile(folder).find_stale()
        if not stale:
            continue
        cases = json.dumps({"profile": str(folder), "cases": list(list_cases(folder, stale))})
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(cases)
            file.flush()
            old, new = (count_in(root, Path(file.name)) for root in (args.before.resolve(), ROOT))
        renew(folder / PREDICTORS_FILE, stale, old, new)
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
    found = subprocess.run(
        [sys.executable, __file__, str(root), "--count", str(cases)],
        env={**os.environ, "PYTHONPATH": str(root)},
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    told: Counted = json.loads(found.stdout)
    return told


def count(told: dict[str, Any]) -> Counted:
    """Return what the codl that is imported counts for cases."""
    profile = load_profile(Path(told["profile"]))
    features: dict[str, Any] = {}
    for case in told["cases"]:
        row, layer = _ROWS[case["row"]], parse_layer(case["layer"])
        whole = Region.whole(layer.output)
        middles = [(axis, length // 3) for axis, length in enumerate(layer.output) if length >= 3]
        cuts = [whole.cut(axis, low, high) for axis, at in middles for low, high in ((0, at), (at, 2 * at))]
        selection = Selection(implementation=row, parameters=case["parameters"])
        boxes = Boxes.of([whole, *cuts])
        found = describe_boxes(layer, selection, boxes, profile.info, are_constants_far=True)
        digest = features.setdefault(row.name, hashlib.sha256())
        digest.update(found.select(profile.rows[row.name].model.features).astype("f8").tobytes())
    return {
        name: [
            digest_implementation(_ROWS[name]),
            _hash("".join(map(read_source, (_ROWS[name].source, *_ROWS[name].other_sources)))),
            digest.hexdigest(),
        ]
        for name, digest in features.items()
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def renew(path: Path, stale: Sequence[str], old: Counted, new: Counted) -> None:
    """Write today's digests into a profile where a stale row counts as before; print all that were stale."""
    text = path.read_text()
    rows = json.loads(text)["rows"]
    for name in stale:
        today, before, digest = new.get(name), old.get(name), rows[name]["digest"]
        if today is not None and before is not None and before == [digest, *today[1:]]:
            text = text.replace(f'"{digest}"', f'"{today[0]}"')
            print(f"{path.parent.name}: {name} renewed")
        else:
            print(f"{path.parent.name}: {name} stays stale")
    path.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
