"""A/A with the real tools: pairs of identical runs on this machine, and the verdicts on them.

    python -m tests.benchmarks.compare_aa_test [--pairs 20] [--keep FOLDER] [--engine numpy]

Runs `bench-run graphs/smoke` twice for every pair, compares each pair with `bench-compare`, and
prints what it said of builds that are one and the same. The goal: no more than 1 % of the verdicts
say faster or slower. Runs that are in the folder already are not repeated.
"""

from __future__ import annotations

import collections
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(target: Path, engine: str) -> None:
    if target.exists():
        return
    words = [str(ROOT / "graphs" / "smoke"), "-o", str(target), "--engine", engine, "-q"]
    subprocess.run([sys.executable, "-m", "bench_run", *words], check=True)


def verdicts(base: Path, other: Path) -> collections.Counter[str]:
    command = [sys.executable, "-m", "bench_compare", str(base), str(other), "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 1:
        raise SystemExit(done.stderr)
    return collections.Counter(one["verdict"] for one in json.loads(done.stdout)["cases"])


def main(argv: list[str]) -> None:
    words = dict(zip(argv[::2], argv[1::2], strict=True))
    total: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(words.get("--keep", temporary))
        folder.mkdir(parents=True, exist_ok=True)
        for pair in range(int(words.get("--pairs", 20))):
            files = [folder / f"pair{pair:02d}_{side}.json" for side in "ab"]
            for path in files:
                run(path, words.get("--engine", "numpy"))
            found = verdicts(*files)
            total += found
            print(f"pair {pair + 1}: {dict(found)}", flush=True)
    judged, alarms = total.total(), total["faster"] + total["slower"]
    print(f"{alarms} of {judged} verdicts are false alarms: {100 * alarms / judged:.2f} %")
    print(", ".join(f"{count} {verdict}" for verdict, count in total.most_common()))


if __name__ == "__main__":
    main(sys.argv[1:])
