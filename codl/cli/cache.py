"""`codl cache`: what codl keeps between processes."""

import argparse
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from codl.assets import cache_dir
from codl.cache.folders import FOLDERS
from codl.cli.flags import add_json_flag
from codl.cli.output import format_bytes, print_json, print_line, print_message, print_table
from codl.devices.pocl_cache import is_kept_folder_used, kept_folder

COLUMNS = ("cache", "entry", "size", "last used", "holds")
_SHOWN_DIGITS = 12
_DRIVERS = "drivers"


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "cache",
        help="list, verify or clear what is kept between processes",
        description="ls lists kept kernels, models and weights. verify checks each; exit code 1 when one "
        "cannot be trusted; such an entry is not used. clear removes all, the drivers' own caches included.",
        epilog="example: codl cache verify",
    )
    parser.add_argument("action", choices=tuple(_ACTIONS), help="what to do")
    add_json_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Perform the action."""
    return _ACTIONS[args.action](is_json=args.json)


def _list(*, is_json: bool) -> int:
    entries = sorted(_find_entries(), key=lambda entry: (entry["cache"], -entry["used"], entry["entry"]))
    if is_json:
        print_json({"folder": str(cache_dir()), "entries": entries})
        return 0
    print_table(COLUMNS, [_to_row(entry) for entry in entries], title=str(cache_dir()))
    return 0


def _verify(*, is_json: bool) -> int:
    problems = [problem for folder in FOLDERS for problem in folder.find_problems()]
    if is_json:
        print_json({"folder": str(cache_dir()), "problems": problems})
    else:
        count = sum(len(folder.files()) for folder in FOLDERS)
        for line in problems or [f"{cache_dir()}: {count} entries, all as they were written"]:
            print_line(line)
    return int(bool(problems))


def _clear(*, is_json: bool) -> int:
    used = {kept_folder()} if is_kept_folder_used() else set()
    drivers = [path for path in _find_driver_folders() if path not in used]
    stays = {path.name for path in used}
    size = sum(e["bytes"] for e in _find_entries() if not (e["cache"] == _DRIVERS and e["entry"] in stays))
    for path in used:
        print_message(f"note: {path} stays: a process that runs uses it")
    count = sum(folder.clear() for folder in FOLDERS)
    for path in drivers:
        shutil.rmtree(path, ignore_errors=True)
        count += 1
    if is_json:
        print_json({"folder": str(cache_dir()), "removed": count, "bytes": size})
    else:
        print_line(f"{cache_dir()}: removed {count} entries, {format_bytes(size)}")
    return 0


_ACTIONS = {"ls": _list, "verify": _verify, "clear": _clear}


def _find_entries() -> Iterator[dict[str, Any]]:
    """Yield every kept file, and each driver's cache as a whole."""
    for folder in FOLDERS:
        for path in folder.files():
            facts = path.lstat()
            yield {
                "cache": folder.name,
                "entry": path.stem,
                "bytes": facts.st_size,
                "used": facts.st_mtime,
                "about": dict(folder.describe(path)),
            }
    for path in _find_driver_folders():
        files = [file.lstat() for file in path.rglob("*") if file.is_file()]
        yield {
            "cache": _DRIVERS,
            "entry": path.name,
            "bytes": sum(facts.st_size for facts in files),
            "used": max((facts.st_mtime for facts in files), default=0.0),
            "about": {"what": f"{len(files)} files of the driver's own"},
        }


def _find_driver_folders() -> list[Path]:
    """Return the drivers' own caches that lie under codl's and hold something."""
    try:
        return sorted(path for path in (cache_dir() / _DRIVERS).iterdir() if any(path.iterdir()))
    except OSError:
        return []


def _to_row(entry: dict[str, Any]) -> tuple[str, ...]:
    used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry["used"]))
    about = " ".join(entry["about"].values()) or "cannot be trusted"
    return entry["cache"], entry["entry"][:_SHOWN_DIGITS], format_bytes(entry["bytes"]), used, about
