"""What the fast ways to read documents buy beside plain ones, in turns, a process for each call.

    python -m tests.benchmarks.reading_paths [--keep FOLDER] [--cases 10000] [--turns 3]

Two documents of so many cases of 1,000 samples, as `compare_speed` makes them. *plain*: msgspec
decodes the text into the dataclasses of the document, samples by way of Python integers; only types
are checked. *trees*: `orjson.loads`, the acceptor on the tree, then the dataclasses. *codec*: what
`bench_schema.files` does: the acceptor on the text, samples parsed from text. *shared*: what
`bench-compare` does with large files, by several processes. Each way ends with the columns of
rounds that a comparison begins with. A way that is not twice as fast as *plain* earns no place.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

from tests.benchmarks.compare_speed import environment, save_both

SAMPLES = 1000
WAYS = {
    "plain": """
import msgspec, numpy
from bench_schema.document import Document
from bench_compare.rounds.lazy import gather

def samples(kind, values):
    return numpy.array(values, numpy.int64)

def read(paths):
    decode = msgspec.json.Decoder(Document, dec_hook=samples).decode
    return [decode(open(path, "rb").read()) for path in paths]
""",
    "trees": """
import orjson
from bench_schema.codec import check_references, from_tree

def read(paths):
    found = [from_tree(orjson.loads(open(path, "rb").read()), path) for path in paths]
    for one in found:
        check_references(one, "")
    return found
""",
    "codec": """
from bench_schema import files

def read(paths):
    return [files.read(path) for path in paths]
""",
    "shared": """
from bench_compare.input.load import load
from bench_compare.input.large import read_large

def read(paths):
    return [source.document for source in load(paths)[0]]
""",
}
MEASURED = """
import gc, json, resource, sys, time
from bench_compare.model import CaseSide
from bench_compare.rounds.lazy import gather
{way}
gc.disable()
begin = time.perf_counter()
documents = read(sys.argv[1:])
middle = time.perf_counter()
for one in documents:
    gather([CaseSide(c.graph.name, c.engine, (c,), (0,)) for c in one.cases])
end = time.perf_counter()
usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
processor = sum(one.ru_utime + one.ru_stime for one in usage)
print(json.dumps([end - begin, middle - begin, processor, usage[0].ru_maxrss / 1024]))
"""
"""As the command does, which collects no garbage while it reads."""


def call(way: str, paths: list[Path]) -> list[float]:
    """Seconds until columns are there, those of reading alone, of processors, and peak MiB."""
    command = [sys.executable, "-c", MEASURED.format(way=WAYS[way]), *map(str, paths)]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, check=True, timeout=900
    )
    found: list[float] = json.loads(done.stdout)
    return found


def main(argv: list[str]) -> None:
    words = dict(zip(argv[::2], argv[1::2], strict=True))
    cases, turns = int(words.get("--cases", 10_000)), int(words.get("--turns", 3))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(words.get("--keep", temporary))
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{name}_{cases}.json" for name in ("a", "b")]
        if not all(path.exists() for path in paths):
            paths = save_both(folder, (cases, SAMPLES))
        calls: dict[str, list[list[float]]] = {way: [] for way in WAYS}
        for _ in range(turns):
            for way in WAYS:
                calls[way].append(call(way, paths))
    today = datetime.now(timezone.utc).date()
    print(f"{today}, {cases} x {SAMPLES} x 2, {len(os.sched_getaffinity(0))} processors")
    plain = statistics.median(one[0] for one in calls["plain"])
    for way, found in calls.items():
        whole, reading, processor, peak = map(statistics.median, zip(*found, strict=True))
        print(
            f"  {way:8} {whole:6.2f} s (reading {reading:5.2f} s), "
            f"plain / it {plain / whole:5.2f}; {processor:6.2f} s of processor, {peak:5.0f} MiB"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
