"""Death of a worker process in words: its exit code, its output, the kernel's counts.

The kernel's out-of-memory killer and ``kill -9`` send the same signal. The control group of the
process counts the victims of the former (``oom_kill``), so does the machine, and the kernel's log,
if readable, names them.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench_run.text import shorten, size_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LONGEST_QUOTE = 200
LONGEST_DETAIL = 4096
SHOWN_CALLS = 8
"""Calls that are kept of a long list of nested ones."""
MOST_CALLS = 100
"""Number of calls that Python prints."""
LOG_SLACK_S = 2.0
"""The clock of the kernel's log is not quite ours."""
LOG_RECORD_BYTES = 8192
NO_LIMIT_BYTES = 1 << 60
"""Size in bytes from which on a memory limit counts as unlimited."""


class Meaning(NamedTuple):
    """Meaning of a signal; `quotes`: the last line of the process probably explains more."""

    words: str
    quotes: bool = False


SEGMENTATION = "it touched memory that is not its own"
SIGNALS: Mapping[str, Meaning] = {
    "SIGSEGV": Meaning(SEGMENTATION),
    "SIGBUS": Meaning("it touched memory with nothing behind it, such as a file that got shorter"),
    "SIGABRT": Meaning("a library gave up", quotes=True),
    "SIGILL": Meaning(
        "an instruction that this processor does not have: a library was built for another "
        "processor, or stopped itself by one",
        quotes=True,
    ),
    "SIGTRAP": Meaning("a library stopped itself", quotes=True),
    "SIGFPE": Meaning("a whole number was divided by zero"),
    "SIGSYS": Meaning("it made a system call that is forbidden here", quotes=True),
    "SIGXCPU": Meaning("its processor time reached the limit (ulimit -t)"),
    "SIGXFSZ": Meaning("a file that it wrote reached the limit (ulimit -f)"),
    "SIGPIPE": Meaning("it wrote to a pipe without a reader"),
    "SIGALRM": Meaning("an alarm that it had set ended it"),
    "SIGTERM": Meaning("it was terminated from outside"),
    "SIGHUP": Meaning("its terminal is gone, or it was terminated from outside"),
    "SIGINT": Meaning("it was interrupted from outside"),
    "SIGQUIT": Meaning("it was terminated from outside"),
}
"""Meanings of signals; the others use the words of the C library."""


class GroupKind(NamedTuple):
    """A version of control groups: how ``/proc/PID/cgroup`` calls it, and its files."""

    controller: str
    mounted: str
    counter: str
    limit: str


GROUP_KINDS = (
    GroupKind("memory", "memory", "memory.oom_control", "memory.limit_in_bytes"),
    GroupKind("", "", "memory.events", "memory.max"),
    GroupKind("", "unified", "memory.events", "memory.max"),
)


class MemoryKills:
    """Kills by the kernel's out-of-memory killer from now on, as far as they are counted."""

    def __init__(self, pid: int, root: Path = Path("/")) -> None:
        """`pid`: the process whose control group is looked at; `root`: of the file systems with
        ``proc``, ``sys`` and ``dev``."""
        self._root = root
        self._file, self._limit = root / "proc/vmstat", root / "no limit"
        for file, limit in _group_files(pid, root):
            if _kills(file) is not None:
                self._file, self._limit = file, limit
                break
        self.start_again()

    def start_again(self) -> None:
        """Count from here on."""
        self._before, self._since_s = _kills(self._file), time.monotonic()

    @property
    def are_counted(self) -> bool:
        return self._before is not None

    def described(self) -> str | None:
        """Return a phrase on a kill since then, for the end of a sentence; None if there was none,
        or it is unknown."""
        log = [line for line in kernel_log(self._since_s, self._root) if "Killed process" in line]
        count = None if self._before is None else (_kills(self._file) or 0) - self._before
        if not (count or (count is None and log)):
            return None
        facts = []
        held = re.search(r"anon-rss:(\d+)kB", log[-1]) if log else None
        if held is not None:
            facts.append(f"it held {size_text(int(held[1]) * 1024)}")
        limit_bytes = _whole_number(self._limit)
        if limit_bytes is not None and limit_bytes < NO_LIMIT_BYTES:
            facts.append(f"the limit of its control group is {size_text(limit_bytes)}")
        if self._file.name == "vmstat" and held is None:
            facts.append("only the machine's kills are counted here, this is likely one of them")
        return f" ({'; '.join(facts)})" if facts else ""


def _group_files(pid: int, root: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the files of the kill count and of the memory limit of a process's control group, its
    own group first; groups above count for those below, and a container shows its group at the
    top."""
    lines: list[str] = []
    with suppress(OSError):
        lines = (root / "proc" / str(pid) / "cgroup").read_text().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for kind in GROUP_KINDS:
            if kind.controller in controllers.split(","):
                top = root / "sys/fs/cgroup" / kind.mounted
                own = top / path.lstrip("/")
                for folder in (own, *own.parents):
                    if folder.is_relative_to(top):
                        yield folder / kind.counter, folder / kind.limit


def _kills(file: Path) -> int | None:
    """Return the value of ``oom_kill`` in lines of names and values; None if it is not there."""
    with suppress(OSError):
        found = re.search(r"^oom_kill (\d+)$", file.read_text(), re.MULTILINE)
        return None if found is None else int(found[1])
    return None


def _whole_number(file: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(file.read_text())
    return None


def kernel_log(since_s: float, root: Path = Path("/")) -> list[str]:
    """Return lines of the kernel's log from an instant on, in seconds since the machine started;
    empty if it cannot be read."""
    records = b""
    with suppress(OSError):  # at its end there is nothing to read
        log = os.open(root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        with open(log, "rb", buffering=0) as file:
            while record := file.read(LOG_RECORD_BYTES):
                records += record
    found = re.findall(r"^\d+,\d+,(\d+),[^;\n]*;(.*)$", records.decode("utf-8", "replace"), re.M)
    return [text for at_us, text in found if int(at_us) / 1e6 >= since_s - LOG_SLACK_S]


_CALLS = re.compile(r"(.*\(most recent call first\):\n)((?:  .*\n?)*)")
_DUMP = "Fatal Python error: "
_DUMPED_SIGNALS = (
    "Segmentation fault",
    "Aborted",
    "Bus error",
    "Illegal instruction",
    "Floating-point exception",
    "Floating point exception",
)
"""Names of fatal signals in the words of Python's fault handler; other fatal errors are the
interpreter's own."""
_THREAD = re.compile(
    r"^Exception in thread [^\n]*:\n(?:[ \t][^\n]*\n|Traceback [^\n]*\n)*(.+)$", re.M
)


def last_line(printed: str) -> str | None:
    """Return the last line that a process printed before Python's fault handler spoke."""
    lines = [line for line in printed.partition(_DUMP)[0].splitlines() if line.strip()]
    return shorten(lines[-1].strip(), LONGEST_QUOTE) if lines else None


def fatal_error(printed: str) -> str | None:
    """Return the interpreter's own last words, where it gave up by itself."""
    for line in printed.splitlines():
        if line.startswith(_DUMP) and line.removeprefix(_DUMP) not in _DUMPED_SIGNALS:
            return shorten(line, LONGEST_QUOTE)
    return None


def is_deep(printed: str) -> bool:
    """Return True if it died in more nested calls than Python prints."""
    return any(calls[2].rstrip().endswith("...") for calls in _CALLS.finditer(printed))


def thread_failure(printed: str) -> str | None:
    """Return the exception that ended a thread while the process went on."""
    found = _THREAD.findall(printed)
    return shorten(found[-1], LONGEST_QUOTE) if found else None


def detail_of(printed: str) -> str | None:
    """Return the end of the output, without most of many nested calls; None if there is none."""

    def first_calls(match: re.Match[str]) -> str:
        calls = match[2].splitlines(keepends=True)
        return match[1] + "".join(calls[:SHOWN_CALLS]) + "  ...\n" * (len(calls) > SHOWN_CALLS)

    return _CALLS.sub(first_calls, printed).strip()[-LONGEST_DETAIL:] or None


def describe_death(code: int | None, phase: str, printed: str, kills: MemoryKills) -> str:
    """Describe the end of a process without a known exception. `code`: as in `subprocess`, None
    while it runs; `kills`: since it began to work."""
    if code is None:
        return f"it closed its pipe to the run during {phase}, and was ended"
    last = last_line(printed)
    quoted = "" if last is None else f"; it printed last: {last}"
    if code >= 0:
        return f"it exited with code {code} during {phase}{quoted}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        return f"signal {-code} during {phase}{quoted}"
    if name == "SIGKILL":
        return _describe_kill(phase, kills)
    fatal = fatal_error(printed)
    if fatal is not None:
        return f"{name} during {phase}: {fatal}"
    words, quotes = SIGNALS.get(name) or Meaning(signal.strsignal(-code) or "not known here")
    if name == "SIGSEGV" and is_deep(printed):
        words += f", more than {MOST_CALLS} calls deep: most likely its stack overflowed"
    return f"{name} during {phase}: {words}{quoted if quotes else ''}"


def _describe_kill(phase: str, kills: MemoryKills) -> str:
    facts = kills.described()
    if facts is not None:
        return f"the kernel's out-of-memory killer killed it during {phase} (SIGKILL){facts}"
    if kills.are_counted:
        who = "killed from outside, not by the kernel for lack of memory"
    else:
        who = "killed from outside, or by the kernel for lack of memory, which is not counted"
    limit_s = resource.getrlimit(resource.RLIMIT_CPU)[1]
    if limit_s != resource.RLIM_INFINITY:
        who += f"; or its processor time reached the hard limit of {limit_s} s (ulimit -t)"
    return f"SIGKILL during {phase}: {who}"
