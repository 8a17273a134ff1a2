"""Printing: tables and JSON on stdout, messages on stderr."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from codl.errors import InputError


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None) -> None:
    """Print a table on stdout: drawn on a terminal, aligned columns of plain text elsewhere."""
    if sys.stdout.isatty():
        table = Table(title=title, title_justify="left")
        for column in columns:
            table.add_column(column)
        for row in rows:
            table.add_row(*row)
        Console(markup=False, highlight=False).print(table)
        return
    if title is not None:
        print(title)
    widths = [max(len(cell) for cell in cells) for cells in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_json(value: Any) -> None:
    """Print a value on stdout as JSON."""
    print(json.dumps(value, indent=2))


def print_message(text: str) -> None:
    """Print one line on stderr."""
    print(text, file=sys.stderr)


def write_file(path: str, content: str | bytes) -> None:
    """Write a file that a flag asks for, complete or not at all.

    Raises:
        InputError: It cannot be written.
    """
    target = Path(path)
    data = content.encode() if isinstance(content, str) else content
    partial = target.with_name(f".{target.name}.partial")
    try:
        partial.write_bytes(data)
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise InputError(
            f"{path}: got {error.strerror or error}, expected a file that can be written; "
            "name one in a folder that exists and is yours"
        ) from error


def format_bytes(count: int) -> str:
    """Return a size in the largest binary unit that keeps it at or above one."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
