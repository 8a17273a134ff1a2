"""Printing: tables and JSON on stdout, messages on stderr.

Output may hold names from models. Every character of them that would do more than appear (an escape, a line
break, a change of direction) is written as a Python escape.
"""

import codecs
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.table import Table

from codl.cli.hints import add_flags
from codl.errors import InputError
from codl.outputs import write_output

_ASCII_ERRORS = "codl-ascii"
_DRAWN = str.maketrans("─│┌└├┐┘┤…×—–·°µ≥≤", "-|++|++|.x--. u><")
"""What stands for characters of codl's own that an encoding lacks."""


def prepare_streams() -> None:
    """Make stdout and stderr take whatever is printed: closed ones lead nowhere, narrow encodings escape."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass  # a file opened later must not take the place of a closed stream
    os.close(descriptor)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    codecs.register_error(_ASCII_ERRORS, _replace_unknown)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_ASCII_ERRORS)


def _replace_unknown(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end].translate(_DRAWN)
    return text.encode("ascii", "backslashreplace").decode(), error.end


def escape(text: str) -> str:
    """Return a text on one line in which every character shows itself and nothing else happens."""
    return text if text.isprintable() else "".join(map(_escape_character, text))


def _escape_character(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "backslashreplace").decode()


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None) -> None:
    """Print a table on stdout: drawn on a terminal, aligned columns of plain text elsewhere."""
    rows = [[escape(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        table = Table(title=None if title is None else escape(title), title_justify="left")
        for column in columns:
            table.add_column(column)
        for row in rows:
            table.add_row(*row)
        Console(markup=False, highlight=False, emoji=False).print(table)
        return
    if title is not None:
        print_line(title)
    widths = [max(len(cell) for cell in cells) for cells in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        print_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_line(text: str) -> None:
    """Print one line on stdout."""
    print(escape(add_flags(text)))


def print_json(value: Any) -> None:
    """Print a value on stdout as JSON."""
    print(json.dumps(value, indent=2))


def print_message(text: str) -> None:
    """Print one line on stderr; a closed stderr is no error, the exit code remains."""
    with suppress(OSError):
        print(escape(add_flags(text)), file=sys.stderr, flush=True)


def write_file(path: str, content: str | bytes) -> None:
    """Write a file that a flag asks for, complete or not at all where the file system allows that.

    Raises:
        InputError: It cannot be written.
    """
    try:
        write_output(path, content)
    except OSError as error:
        raise InputError(describe_unwritable(path, error)) from error


def describe_unwritable(path: str, error: OSError) -> str:
    """Return why nothing can be written at a path, and what to do."""
    return (
        f"{path}: got {error.strerror or error}, expected a file that can be written; "
        "name one in a folder that exists and is yours"
    )


def format_bytes(count: int) -> str:
    """Return a size in the largest binary unit that keeps it at or above one."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
