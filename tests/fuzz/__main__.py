"""Fuzzes what reads files, guided by coverage: only `CodlError` may come out. Needs `codl[fuzz]`.

New inputs and finds go to FOLDER, `.pytest_cache/fuzz/<reader>` by default; finds that are mended to `kept/`.

Example:
    python -m tests.fuzz plan --seconds 600
    python -m tests.fuzz plan --seconds 0 .pytest_cache/fuzz/plan/crash-0123
"""

import argparse
import inspect
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import atheris

from tests.fuzz.mutations import mutate_json, mutate_model
from tests.fuzz.readers import KEPT, READERS, Reader, is_refused

INSTRUMENTED = {
    "model": ["codl.frontend", "codl.ir"],
    "plan": ["codl.plan"],
    "profile": ["codl.latency"],
    "kernels": ["codl.catalog.database", "codl.catalog.shape_key", "codl.cache"],
    "cache": [
        "codl.cache",
        "codl.frontend.graph_cache",
        "codl.frontend.graph_text",
        "codl.plan",
        "codl.session",
    ],
}
"""The modules whose branches guide the fuzzer, by reader: it takes a while to prepare each of them."""
ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60
MOST_BYTES = 1 << 15
MOST_MIB = 3072


def instrument(prefixes: Sequence[str]) -> None:
    """Let the functions of the imported modules of these names tell which branches they take."""
    for name, module in list(sys.modules.items()):
        if not name.startswith(tuple(prefixes)):
            continue
        owners = [module, *(kind for kind in vars(module).values() if inspect.isclass(kind))]
        for function in {one for owner in owners for one in vars(owner).values() if inspect.isfunction(one)}:
            if function.__module__ == name:
                atheris.instrument_func(function)


def make_mutator(reader: Reader) -> Callable[[bytes, int, int], bytes]:
    """Return what changes values in half of cases, and bytes in the others."""
    change = mutate_json if reader.is_json else mutate_model

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        dice = random.Random(seed)
        if data and dice.random() < 0.6:
            data = change(data, dice)
            return data[:most]
        return bytes(atheris.Mutate(data, most))

    return mutate


def main() -> None:
    """Fuzz until the time is over or something is found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("files", nargs="*", help="run these alone")
    flags = parser.parse_args()
    reader = READERS[flags.reader]
    instrument(INSTRUMENTED[flags.reader])
    corpus = (flags.folder or ROOT / ".pytest_cache" / "fuzz" / flags.reader).absolute()
    corpus.mkdir(parents=True, exist_ok=True)
    for index, seed in enumerate((*reader.make_seeds(), *_read_kept(flags.reader))):
        (corpus / f"seed-{index}").write_bytes(seed)
    folder = Path(
        tempfile.mkdtemp(prefix="codl-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    )
    os.environ["CODL_CACHE_DIR"] = str(folder)
    warnings.simplefilter("ignore")
    options = [f"-max_total_time={flags.seconds}", f"-max_len={MOST_BYTES}", f"-timeout={TIMEOUT_S}"]
    options += [f"-rss_limit_mb={MOST_MIB}", f"-artifact_prefix={corpus}/", "-print_final_stats=1"]
    where = flags.files or [str(corpus)]

    def test(data: bytes) -> Any:
        is_refused(reader, data, folder)

    atheris.Setup([sys.argv[0], *options, *where], test, custom_mutator=make_mutator(reader))
    atheris.Fuzz()


def _read_kept(name: str) -> list[bytes]:
    folder = KEPT / name
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []


if __name__ == "__main__":
    main()
