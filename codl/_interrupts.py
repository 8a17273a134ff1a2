"""Ctrl-C before there is a command line to catch it: while the command `codl` imports what it needs.

This is imported before anything else of the package. A program that imports codl keeps its own handler.
"""

import os
import signal
import sys
import threading
from itertools import pairwise
from types import FrameType

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended, as shells count it."""
_MODULE = "codl"


def leave_at_once(number: int = signal.SIGINT, frame: FrameType | None = None) -> None:
    """End the process with one line; nothing that was begun is waited for."""
    try:
        os.write(2, b"codl: interrupted\n")
    finally:
        os._exit(INTERRUPTED)


def is_command() -> bool:
    """Return whether this process is the command, as `codl` or `python -m codl`."""
    name = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else ""
    if name == "-m":  # Python is still looking for the module
        words = sys.orig_argv
        return any(pair == ("-m", _MODULE) for pair in pairwise(words))
    return name in {_MODULE, f"{_MODULE}.exe"} or f"{_MODULE}{os.sep}__main__.py" in sys.argv[0]


def catch_early_interrupts() -> None:
    """Let Ctrl-C end the command quietly until it has a handler of its own."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave_at_once)


catch_early_interrupts()
