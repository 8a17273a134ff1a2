"""Commands that messages name, with the flags that the user has given.

A hint such as "run `codl profile`" comes from rooms that do not know the command line. Without the user's
flags it would mean other devices, so the flags about devices are added where it is printed.
"""

import argparse
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PAIR_VERBS = frozenset({"devices", "doctor", "profile", "tune", "plan", "inspect", "analyze", "run", "bench"})
"""Verbs that take `--emulate-pair`."""
DEVICE_VERBS = PAIR_VERBS - {"devices", "doctor", "tune"}
"""Verbs that take `--devices`."""
_COMMAND = re.compile(r"`codl (?P<verb>[a-z]+)(?P<rest>[^`]*)`")
_NOTHING = argparse.Namespace(devices=None, emulate_pair=False)
_given = ContextVar("given", default=_NOTHING)


def note_flags(args: argparse.Namespace) -> None:
    """Let `add_flags` add the flags of a command line until the block of `noted_flags` ends."""
    _given.set(argparse.Namespace(**{**vars(_NOTHING), **vars(args)}))


@contextmanager
def noted_flags() -> Iterator[None]:
    """Forget the flags of a command line when the block ends."""
    token = _given.set(_NOTHING)
    try:
        yield
    finally:
        _given.reset(token)


def add_flags(text: str) -> str:
    """Return a message in which each command between backticks has the user's flags about devices."""
    return _COMMAND.sub(_add_flags, text)


def _add_flags(found: re.Match[str]) -> str:
    args, verb, rest = _given.get(), found["verb"], found["rest"]
    if args.devices and verb in DEVICE_VERBS and "--device" not in rest:
        rest += f" --devices {shlex.quote(','.join(args.devices))}"
    if args.emulate_pair and verb in PAIR_VERBS:
        rest += " --emulate-pair"
    return f"`codl {verb}{rest}`"
