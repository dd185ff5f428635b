"""Changed documents through the whole command, each in a process of its own with little memory.

Usage:
  compare_mutated.py [--count=N] [--first=N] [--seed=N]

Options:
  --count=N  documents [default: 20000]
  --first=N  number of the first one: to go on, or to repeat a finding [default: 0]
  --seed=N   of all [default: 0]

Seven of ten documents are changed in their fields, as the fuzz target "comparisons" does it; the
others are files of changed bytes: plain, gzip, Zstandard, the journal of an unfinished run. Each is
compared with the document that it came from, and every report is written. A process that has
imported everything forks for each. Prints what was found (a traceback, a complaint that is not one
line, an answer without a word, words of a dying process, a signal, 20 s of the processor, or more
than 1 GiB), and the most memory that a process took.
"""

from __future__ import annotations

import collections
import faulthandler
import gzip
import os
import random
import resource
import signal
import tempfile
import time
from pathlib import Path

from bench_schema.packing import zstd_module

from tests.benchmarks.harness import script
from tests.fuzz import mutators, targets
from tests.fuzz.run import attempt, changed

LIMIT_BYTES = 1 << 30
KINDS = ("fields",) * 7 + ("bytes", "packed", "journal")
PATIENCE_S = 300
"""After which a process is ended; 20 s of the processor are a finding already."""
EVERY = 1000
"""Documents between two lines of progress."""


def document(seed: int, number: int) -> str | bytes:
    """Changed document `number`."""
    draw = random.Random(f"mutated {seed} {number}")
    kind = KINDS[number % len(KINDS)]
    if kind == "fields":
        return changed("comparisons", seed, number)
    if kind == "journal":
        return mutators.lines(draw, draw.choice((*targets.journals(), *targets.journals())))
    text = draw.choice(targets.document_texts()).encode()
    if kind == "bytes":
        return mutators.data(draw, text)
    pack = draw.choice((gzip.compress, zstd_module().compress))
    if draw.random() < 0.5:
        return pack(mutators.data(draw, text))
    return mutators.data(draw, pack(text))


def child(seed: int, number: int, mapped: int, words: int) -> None:
    """In the forked process: compare, and leave with the finding's words in the file."""
    os.dup2(words, 1)
    os.dup2(words, 2)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + LIMIT_BYTES, mapped + LIMIT_BYTES))
    signal.alarm(PATIENCE_S)
    trace = attempt("comparisons", document(seed, number))
    if trace is not None:
        os.write(words, trace.encode("utf-8", "replace"))
    os._exit(0 if trace is None else 1)


def tried(seed: int, number: int, mapped: int) -> tuple[str | None, int]:
    """What was found with one document, and the memory that its process took beside ours, in
    KiB."""
    ours = _pages(1) >> 10
    with tempfile.TemporaryFile() as words:
        process = os.fork()
        if process == 0:
            try:
                child(seed, number, mapped, words.fileno())
            except BaseException as error:  # nothing of the parent may go on in its copy
                os.write(words.fileno(), f"ended with {error!r}".encode())
            os._exit(3)
        _, status, usage = os.wait4(process, 0)
        words.seek(0)
        said = words.read().decode("utf-8", "replace")
    peak = max(0, usage.ru_maxrss - ours)
    if os.WIFSIGNALED(status):
        return f"died of signal {os.WTERMSIG(status)}: {said}", peak
    if os.WEXITSTATUS(status) or said:
        return said or f"left with {os.WEXITSTATUS(status)}", peak
    return (f"took {peak >> 10} MiB" if peak << 10 > LIMIT_BYTES else None), peak


def warm(seed: int) -> int:
    """Import and map what any document needs; the bytes that are mapped then."""
    for text in targets.document_texts():
        attempt("comparisons", text + " " * (-len(text) % 20))  # the page too
    for number in range(len(KINDS)):
        attempt("comparisons", document(seed, number))
    faulthandler.enable()
    return _pages(0)


def _pages(column: int) -> int:
    """Bytes that are mapped (0) or resident (1) now."""
    return int(Path("/proc/self/statm").read_text().split()[column]) * resource.getpagesize()


def main(count: int, first: int, seed: int) -> int:
    mapped, begin = warm(seed), time.monotonic()
    findings: collections.Counter[str] = collections.Counter()
    most = 0
    for number in range(first, first + count):
        found, peak = tried(seed, number, mapped)
        most = max(most, peak)
        if found is not None:
            findings[KINDS[number % len(KINDS)]] += 1
            print(f"document {number} (seed {seed}): {found}", flush=True)
        if (number + 1 - first) % EVERY == 0 or number + 1 == first + count:
            seconds = time.monotonic() - begin
            spent = resource.getrusage(resource.RUSAGE_CHILDREN)
            print(
                f"{number + 1 - first} documents: {findings.total()} findings, at most "
                f"{most >> 10} MiB, {seconds:.0f} s ({spent.ru_utime + spent.ru_stime:.0f} s CPU)",
                flush=True,
            )
    return 1 if findings else 0


if __name__ == "__main__":
    script(main)
