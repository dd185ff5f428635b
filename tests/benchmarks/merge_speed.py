"""How long it takes to plan 10,000 graphs as shards, and to merge their documents.

Usage:
  merge_speed.py [--graphs=N] [--shards=N]

Options:
  --graphs=N  how many [default: 10000]
  --shards=N  how many [default: 8]

Seconds of processor time and most memory, each step in a process of its own. The documents are made
from the stored one: 5 rounds of 20 samples in two series a case.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from docopt import docopt

ROOT = Path(__file__).resolve().parents[2]


def write_parts(folder, graphs, shards):
    import numpy as np
    from bench_schema import files
    from bench_schema.document import Whole

    template = files.read(ROOT / "tests" / "data" / "documents" / "v2.json")
    case = next(case for case in template.cases if len(case.rounds) > 1)
    samples = {name: np.arange(20, dtype=np.int64) + 5000 for name in ("device_ns", "e2e_ns")}
    one = replace(case.rounds[0], series=samples, warmup={}, cut={}, checks=None)
    rounds = tuple(replace(one, index=index) for index in range(5))
    case = replace(case, rounds=rounds, validation=None)
    for index in range(1, shards + 1):
        cases = tuple(
            replace(
                case,
                id=f"g{n} on {case.engine}",
                graph=replace(case.graph, name=f"g{n}", fingerprint=f"f{n}"),
            )
            for n in range(index - 1, graphs, shards)
        )
        run = replace(
            template.run,
            id=f"run {index}",
            shard=f"{index}/{shards}",
            whole=Whole(graphs, "ab" * 32),
        )
        files.save(folder / f"{index}.json", replace(template, run=run, cases=cases, parts=()))


def write_graphs(folder, count):
    sys.path.insert(0, str(ROOT))
    from tests.support import graph_json

    folder.mkdir()
    for index in range(count):
        text = json.dumps(graph_json(f"g{index}", (4, 8 + index)))
        (folder / f"g{index}.json").write_text(text)


def measured(*words):
    """Seconds and MiB of a command."""
    begin = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = f"import resource; from bench_run.cli import main; code = main({list(words)!r}); " + (
        "import sys; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr); "
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    mib = int(done.stderr.split()[-1]) >> 10
    return cpu_s, time.perf_counter() - begin, mib


def main():
    chosen = docopt(__doc__)
    graphs, shards = int(chosen["--graphs"]), int(chosen["--shards"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_graphs(folder / "graphs", graphs)
        write_parts(folder, graphs, shards)
        parts = [str(folder / f"{index}.json") for index in range(1, shards + 1)]
        size = sum(Path(part).stat().st_size for part in parts) / 2**20
        words = (str(folder / "graphs"), "--engine", "numpy", "--dry-run")
        rows = {
            "plan all": (*words,),
            "plan one shard": (*words, "--shard", f"1/{shards}"),
            f"merge {size:.0f} MiB": ("merge", *parts, "-o", str(folder / "all.json")),
        }
        print(f"{graphs} graphs, {shards} shards")
        for what, command in rows.items():
            cpu_s, wall_s, mib = measured(*command)
            print(f"{what:<20} {cpu_s:6.1f} s processor {wall_s:6.1f} s wall {mib:6} MiB")


if __name__ == "__main__":
    main()
