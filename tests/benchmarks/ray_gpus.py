"""A suite shared by the GPUs of a host through Ray: who measured what, and how long it took.

Usage:
  ray_gpus.py [options]

Options:
  --engine=SPEC  [default: cudnn]
  --ray=ADDRESS  [default: local]
  --rounds=N     [default: 5]
  --iters=N      [default: 100]
  --alone=DIR    documents that `two_gpus.py --keep` left: times of the same units alone
  --specs=FILE   other graphs than the 19 of `two_gpus.py`, one --op a line
  --seconds=S    the run is interrupted then, and its document told [default: 3600]

Lines that begin with ``= `` are the answers.
"""

from __future__ import annotations

import json
import math
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

from docopt import docopt

sys.path.insert(0, str(Path(__file__).resolve().parent))
from two_gpus import WITHIN, by_case, end, logs_of, read_ops, start


def tell_units(path):
    """Which unit measured which graph: one for all rounds of a graph."""
    cases = json.loads(path.read_bytes())["cases"]
    print("= outcomes with Ray:", dict(Counter(case["outcome"]["status"] for case in cases)))
    units, seen = Counter(), {}
    for case in cases:
        mine = {(each["host"], each["device_uuid"]) for each in case["rounds"]}
        if not mine:
            continue
        if len(mine) > 1:
            print(f"= {case['id']} was measured on {mine}")
        seen[case["graph"]["name"]] = mine.pop()
        units[seen[case["graph"]["name"]]] += 1
    for (host, uuid), count in sorted(units.items()):
        print(f"{host} {uuid}: {count} cases")
    beside = sum(bool(r["surroundings"]["companions"]) for c in cases for r in c["rounds"])
    print(f"{beside} of {sum(len(c['rounds']) for c in cases)} rounds name companions")
    return {(uuid, graph): uuid for graph, (_, uuid) in seen.items()}


def compare(path, folder, units):
    """Times of this run against those of the same unit alone."""
    alone = by_case(logs_of(each) for each in sorted(Path(folder).glob("alone*.json")))
    changes = {}
    for (_, graph), log in logs_of(path).items():
        key = next((key for key in units if key[1] == graph), None)
        if key in alone:
            changes[graph] = log - statistics.fmean(alone[key])
    near = sum(abs(change) <= WITHIN for change in changes.values())
    mean = statistics.fmean(changes.values()) if changes else math.nan
    print(
        f"= Ray against the same unit alone: {near} of {len(changes)} within 0.2 %, mean "
        f"{100 * mean:+.3f} %, largest "
        f"{100 * max(changes.values(), key=abs, default=math.nan):+.2f} %"
    )


def main():
    given = docopt(__doc__)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen = SimpleNamespace(
        ops=read_ops(given["--specs"]),
        engine=given["--engine"],
        reference="none",
        rounds=int(given["--rounds"]),
        iters=int(given["--iters"]),
    )
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "fleet.json"
        begin = time.perf_counter()
        process = start(chosen, output, "--ray", given["--ray"])
        try:
            code = process.wait(float(given["--seconds"]))
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            end([process])
            code = f"{process.returncode} (interrupted)"
        print(
            f"= {len(chosen.ops)} graphs with --ray {given['--ray']}: "
            f"{time.perf_counter() - begin:.1f} s, exit code {code}"
        )
        print(output.with_suffix(".log").read_text()[-1500 if output.exists() else -6000 :])
        if not output.exists():
            raise SystemExit("no document")
        units = tell_units(output)
        if given["--alone"] is not None:
            compare(output, given["--alone"], units)
        words = [sys.executable, "-m", "bench_compare", str(output), "--group-by", "unit"]
        print(subprocess.run(words, capture_output=True, text=True, check=False).stdout[-600:])


if __name__ == "__main__":
    main()
