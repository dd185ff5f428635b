"""How fast documents are written, parsed, validated and built, against what one would use else.

    python tests/benchmarks/json_speed.py [CASES [ROUNDS]]

Makes a document of CASES cases (10,000) with 1,000 samples each in ROUNDS rounds (1) and prints
seconds and added memory of each step. `json` and plain jsonschema run on a hundredth of the
cases; their times are scaled. The goals are for ten million samples on two cores.
"""

import gc
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
from bench_schema import codec, files
from bench_schema.checks.validator import check_document, validator
from bench_schema.document import SCHEMA_VERSION
from bench_schema.merge import summaries

STORED = Path(__file__).parents[1] / "data" / "documents" / f"v{SCHEMA_VERSION}.json"
SAMPLES = 1000
PART = 100
GOALS_S = {"write": 0.5, "decode": 0.75 + 1.0, "validate": 1.0}


def make_case(template, number, rounds):
    """A case with 1,000 samples over its rounds, other fields as in the stored document."""
    rng = np.random.default_rng(number)
    samples = rng.normal(5e6, 1e5, (rounds, SAMPLES // rounds)).astype(np.int64)
    first = replace(template.rounds[0], warmup={"device_ns": samples[0][:10]})
    visits = tuple(
        replace(first, index=index, series={"device_ns": series}, cut={"device_ns": 0})
        for index, series in enumerate(samples)
    )
    init = dict.fromkeys(template.init, samples[:, 0])
    graph = replace(template.graph, name=f"graph {number}", fingerprint=str(number))
    case = replace(template, id=str(number), graph=graph, rounds=visits, init=init)
    return replace(case, summary=summaries(visits))


def make_document(cases, rounds):
    stored = files.read(STORED)
    made = tuple(make_case(stored.cases[0], number, rounds) for number in range(cases))
    return replace(stored, cases=made)


def best(action, repeats=3):
    """Shortest time of a few, and what the last one gave; garbage is collected outside of it."""
    shortest, result = float("inf"), None
    for _ in range(repeats):
        result = None
        gc.collect()
        start = time.perf_counter()
        result = action()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest, result


def row(name, seconds, note=""):
    goal = GOALS_S.get(name)
    judged = "" if goal is None else f"goal {goal} s: {'held' if seconds <= goal else 'MISSED'}"
    print(f"{name:<28}{seconds:8.3f} s  {judged} {note}", flush=True)


def others(text, part, scale, fast):
    """Times of the usual tools, on a part of the document."""
    tree = json.loads(part)
    plain, _ = best(lambda: json.dumps(tree, separators=(",", ":")), 1)
    row("json.dumps", plain * scale, f"{plain * scale / fast['write']:.0f} × our time")
    parsed, _ = best(lambda: json.loads(text), 1)
    row("json.loads", parsed, f"{parsed / fast['decode']:.1f} × all that decode does")
    checked, _ = best(lambda: list(validator(SCHEMA_VERSION).iter_errors(tree)), 1)
    row("jsonschema", checked * scale, f"{checked * scale / fast['validate']:.0f} × our time")


MEMORY = """
import sys
from pathlib import Path
from bench_schema import codec, files
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
files.read(sys.argv[1])
before = peak()
kept = [files.read(path) for path in sys.argv[2:]]
print(before, peak())
"""


def memory(path, copies):
    command = [sys.executable, "-c", MEMORY, str(STORED), *[str(path)] * copies]
    before, after = map(float, subprocess.check_output(command, text=True).split())
    print(f"read {copies} and keep: {after:.0f} MiB at most, {after - before:.0f} more than before")


def whole_files(document, folder):
    """Times of whole files, and the memory that reading one and two takes."""
    for ending in ("json", "json.gz", "json.zst"):
        saved = Path(folder) / f"speed.{ending}"
        seconds, _ = best(lambda to=saved: files.save(to, document), 1)
        loaded, _ = best(lambda to=saved: files.read(to), 1)
        size = saved.stat().st_size / 1e6
        row(f"save .{ending}", seconds, f"{size:.1f} MB, read again in {loaded:.2f} s")
    for copies in (1, 2):
        memory(Path(folder) / "speed.json", copies)


def ours(document):
    """Our times, and the text of the document."""
    fast = {}
    fast["write"], text = best(lambda: codec.encode(document))
    print(f"{len(document.cases)} cases × {SAMPLES} samples: {len(text) / 1e6:.1f} MB")
    row("write", fast["write"])
    fast["decode"], _ = best(lambda: codec.decode(text, "text"))
    row("decode", fast["decode"], "parses, validates and builds, all in one")
    parse, tree = best(lambda: orjson.loads(text), 2)
    row("orjson.loads", parse)
    fast["validate"], _ = best(lambda: check_document(tree, SCHEMA_VERSION, "text"))
    row("validate", fast["validate"])
    return fast, text


def main(cases=10_000, rounds=1):
    document = make_document(cases, rounds)
    fast, text = ours(document)
    scale = max(cases // PART, 1)
    others(text, codec.encode(make_document(cases // scale, rounds)), scale, fast)
    with tempfile.TemporaryDirectory() as folder:
        whole_files(document, folder)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
