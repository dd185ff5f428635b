"""What another version of this project answers to the same comparisons, and where the two differ.

    python -m tests.benchmarks.same_verdicts CHECKOUT [--worlds 300] [--keep FOLDER]

CHECKOUT is a folder with the other version. Half of the worlds have bad news in them
(`tests.bench_compare.worlds`); the stored documents of `tests/data` are compared with each other,
and so are documents whose changes are as large as their noise. Exit codes, verdicts, reasons and
numbers of every case are held against each other.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import permutations
from pathlib import Path

import numpy as np
from bench_schema.files import save

from tests.bench_compare.build import case, document
from tests.bench_compare.worlds import drawn, policy_of, words_of, written

ROOT = Path(__file__).parents[2]
TOLERANCE = 1e-9
ANSWER = """
import contextlib, io, json, sys
from bench_compare.cli import main
codes = []
for number, words in enumerate(json.load(sys.stdin)):
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = main([*words, "-q", "--json", f"{sys.argv[1]}/{number}.json"])
        except SystemExit as error:
            code = error.code
        except Exception as error:
            code = repr(error)
    codes.append(code)
print(json.dumps(codes))
"""


def worlds(folder: Path, count: int) -> list[list[str]]:
    """Words of the command line; their files are in `folder`."""
    found = []
    for seed in range(count):
        bad = bool(seed % 2)
        random = np.random.default_rng((seed, bad))
        plan = drawn(random, bad)
        here = folder / str(seed)
        here.mkdir(parents=True)
        words = words_of(random, plan, written(random, plan, here))
        found.append([*words, *policy_of(random, plan, here)])
    return found


def scattered(random, shift):
    """Five rounds that scatter by 0.8 %, samples by 0.5 %."""
    levels = 1e6 * np.exp(shift + random.normal(0, 0.008, (5, 1)))
    return np.rint(levels * np.exp(random.normal(0, 0.005, (5, 20)))).astype(np.int64)


def noisy(folder: Path, count: int) -> list[list[str]]:
    """Two documents of 40 cases each, whose changes are about as large as noise and threshold."""
    found = []
    for seed in range(count):
        random = np.random.default_rng(seed)
        paths = []
        shifts = random.normal(0, 0.015, 40)
        for side in (0, 1):
            cases = [
                case(f"g{n}", scattered(random, side * shift)) for n, shift in enumerate(shifts)
            ]
            paths.append(folder / f"noisy{seed}_{side}.json")
            save(paths[-1], document(cases, f"side {side}", f"run {seed} {side}"))
        found.append(list(map(str, paths)))
    return found


def stored() -> list[list[str]]:
    """Each stored document against each other one, and each alone with itself."""
    paths = sorted(map(str, (ROOT / "tests/data/documents").glob("**/*.json*")))
    return [[a, b] for a, b in permutations(paths, 2)][:200]


def answers(checkout: Path, commands: list[list[str]], folder: Path) -> list[int]:
    folder.mkdir(parents=True)
    path = os.pathsep.join([str(checkout), str(checkout / "schema")])
    done = subprocess.run(
        [sys.executable, "-c", ANSWER, str(folder)],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"},
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    codes: list[int] = json.loads(done.stdout.splitlines()[-1])
    return codes


def differences(first, second, where=""):
    """Places at which two trees are unlike; numbers may differ by their last digits."""
    if isinstance(first, dict) and isinstance(second, dict):
        for name in {**first, **second}:
            yield from differences(first.get(name), second.get(name), f"{where}.{name}")
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for number, pair in enumerate(zip(first, second, strict=True)):
            yield from differences(*pair, f"{where}[{number}]")
    elif isinstance(first, float) and isinstance(second, (int, float)):
        if not math.isclose(first, second, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            yield where, first, second
    elif first != second:
        yield where, first, second


def verdict_changes(first, second):
    """Each verdict of a metric that is another one, with how far its interval reaches."""
    for one, two in zip(first.get("cases", ()), second.get("cases", ()), strict=False):
        for name, before in one["metrics"].items():
            after = two["metrics"].get(name, {"verdict": "gone"})
            if before["verdict"] != after["verdict"]:
                ends = [before["ci_low"] or 1, 1 / (before["ci_high"] or 1)]
                half = math.sqrt(1 + before["threshold_ratio"])
                nearer = "nearer than half of the threshold" if max(ends) < half else "beyond"
                yield f"{name}: {before['verdict']} -> {after['verdict']}, interval {nearer}"


def main(argv: list[str]) -> int:
    words = dict(zip(argv[1::2], argv[2::2], strict=True))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(words.get("--keep", temporary)).resolve()
        count = int(words.get("--worlds", 300))
        commands = [*worlds(folder / "worlds", count), *stored(), *noisy(folder, count // 10)]
        sides = [folder / "other", folder / "this"]
        codes = [
            answers(checkout, commands, side)
            for checkout, side in zip((Path(argv[0]).resolve(), ROOT), sides, strict=True)
        ]
        kinds, moved, unlike, cases = Counter(), Counter(), 0, 0
        for number, command in enumerate(commands):
            texts = [side / f"{number}.json" for side in sides]
            trees = [json.loads(one.read_bytes()) if one.exists() else {} for one in texts]
            cases += len(trees[1].get("cases", ()))
            moved.update(verdict_changes(*trees))
            found = list(differences(*trees))
            if codes[0][number] != codes[1][number]:
                found.insert(0, ("exit code", codes[0][number], codes[1][number]))
            unlike += bool(found)
            kinds.update(where.split("[")[0] + where.rpartition("]")[2] for where, *_ in found)
            for place, one, two in found[:3]:
                print(f"{number} {place}: {one!r} -> {two!r}   {' '.join(command)[:300]}")
    for change, number in moved.items():
        print(f"  {change}: {number}")
    print(f"{len(commands)} comparisons of {cases} cases: {unlike} differ {dict(kinds)}")
    return int(bool(unlike))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
