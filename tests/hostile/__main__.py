"""Feeds codl valid, odd, hostile and damaged models: right numbers or a CodlError, in time and memory.

Example:
    python -m tests.hostile --models 1000 --seed 1
    python -m tests.hostile --only hostile-1-17 --show
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("CODL_EMULATE_PAIR", "1")
os.environ.setdefault("CODL_CACHE_DIR", str(Path(__file__).parents[2] / ".pytest_cache" / "codl"))

from tests.hostile.campaign import Result, run_campaign
from tests.hostile.families import name_cases
from tests.hostile.judge import OUTCOMES


def main() -> int:
    """Run a campaign and return 1 if there are faults."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="*", metavar="NAME", help="these cases, such as valid-1-17")
    parser.add_argument("--family", help="cases of this family alone")
    parser.add_argument(
        "--show", action="store_true", help="print every result, and the model of --only as text"
    )
    parser.add_argument("-o", "--output", type=Path, help="a file for all results")
    flags = parser.parse_args()
    names = flags.only or name_cases(flags.models, seed=flags.seed)
    names = [name for name in names if name.startswith(flags.family or "")]
    if flags.only and flags.show:
        show(names)

    def tell(result: Result) -> None:
        if result.is_fault or flags.show:
            print(result, flush=True)

    campaign = run_campaign(names, workers=flags.workers, tell=tell)
    print(campaign.count())
    for kind, words in OUTCOMES.items():
        print(f"  {kind:<9} {words}")
    if flags.output:
        flags.output.write_text("".join(f"{r}\n" for r in sorted(campaign.results, key=lambda r: r.name)))
    return int(bool(campaign.faults))


def show(names: list[str]) -> None:
    """Print models as text."""
    import onnx

    from tests.hostile.families import make_case

    for name in names:
        case = make_case(name)
        try:
            print(onnx.printer.to_text(onnx.ModelProto.FromString(case.content))[:20000])
        except Exception as error:  # whatever the bytes are
            print(f"{name}: {error}")
        print({name: (value.dtype, value.shape) for name, value in case.feeds.items()})


if __name__ == "__main__":
    sys.exit(main())
