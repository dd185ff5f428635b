"""Fuzzing with a time budget: ``python -m tests.fuzz``.

Usage: fuzz [--seconds=N] [--seed=N] [--target=NAME] [--only=I]

Options:
  --seconds=N    time budget [default: 60]
  --seed=N       seed of all inputs [default: 0]
  --target=NAME  one target instead of all
  --only=I       one input of it, by its number: repeats a finding

Targets take turns. Input number I of a target depends on the seed, the target's name and I only.
What is found is written to fuzz-findings/ with its traceback; exit code 1.
"""

from __future__ import annotations

import faulthandler
import sys
from pathlib import Path

from docopt import docopt

from tests.fuzz.run import fuzz
from tests.fuzz.targets import TARGETS


def main(argv) -> int:
    given = docopt(__doc__, argv)
    faulthandler.enable()
    names = list(TARGETS) if given["--target"] is None else [given["--target"]]
    only = None if given["--only"] is None else int(given["--only"])
    seed = int(given["--seed"])
    counts, findings = fuzz(names, seed, float(given["--seconds"]), only)
    for name, count in counts.items():
        print(f"{name:14} {count:8,} inputs")
    for finding in findings:
        print(f"\n{finding.title} (seed {seed})\n{finding.trace}")
        folder = Path("fuzz-findings")
        folder.mkdir(exist_ok=True)
        safe = finding.title.replace(" ", "_")
        (folder / f"{safe}.txt").write_text(f"{finding.content!r}\n\n{finding.trace}")
    print(f"\n{sum(counts.values()):,} inputs, seed {seed}: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
