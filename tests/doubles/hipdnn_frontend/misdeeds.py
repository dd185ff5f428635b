"""What foreign code may do to the process it is loaded into."""

from __future__ import annotations

import atexit
import ctypes
import locale
import os
import sys
import time

_kept = []


def _chatter():
    os.write(1, b'{"schema_version": 1, "cases": []}\n' * 50)
    print("noise on stdout", flush=True)
    print("noise on stderr", file=sys.stderr, flush=True)


def _comma():
    for name in ("de_DE.UTF-8", "fr_FR.UTF-8", "C"):
        try:
            return locale.setlocale(locale.LC_ALL, name)
        except locale.Error:
            continue
    return None


def _fork():
    if os.fork() == 0:
        time.sleep(30)  # holds every descriptor of its parent
        os._exit(0)


DEEDS = {
    "abort": os.abort,
    "abort_at_exit": lambda: atexit.register(os.abort),
    "segfault": lambda: ctypes.string_at(0),
    "exit0": lambda: os._exit(0),
    "hang": lambda: time.sleep(1000),
    "print": _chatter,
    "locale": _comma,
    "leak": lambda: _kept.append(os.open(os.devnull, os.O_RDONLY)),
    "fork": _fork,
}


def commit(deeds):
    """One or several, by name, separated by blanks."""
    for deed in (deeds or "").split():
        DEEDS[deed]()
