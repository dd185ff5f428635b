"""A judgement of equals: the base's own call as a kernel is neither faster nor slower.

Usage:
  judge_aa.py [--runs=N] [--base=SPEC] [--busy=N]

Options:
  --runs=N     judgements of each operation [default: 10]
  --base=SPEC  numpy, torch:cpu or torch:cuda [default: numpy]
  --busy=N     loops that keep a processor busy each [default: 0]

Prints the verdict, the speed and the seconds of each judgement, and of a kernel that is wrong. Exit
code 1 if an equal was called faster or slower, or if an answer took more than 15 s, a wrong one
more than 5.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks.checks import busy_loops
from tests.benchmarks.harness import script

OPS = ("relu: dims=1024x1024", "matmul: m=1024 n=1024 k=1024")
KERNELS = {
    "numpy": "import numpy as np\ndef relu(x): return np.maximum(x, 0)\n"
    "def matmul(a, b): return np.matmul(a, b)\n",
    "torch": "import torch\ndef relu(x): return torch.relu(x)\ndef matmul(a, b): return a @ b\n",
}
WRONG = {
    "numpy": "import numpy as np\ndef relu(x): return np.abs(x) * 1\n",
    "torch": "import torch\ndef relu(x): return torch.abs(x) * 1\n",
}
MOST_S, MOST_WRONG_S = 15.0, 5.0


def judged(kernel: Path, op: str, base: str) -> tuple[dict, float]:
    """The answer, and how long it took."""
    words = (str(kernel), "--op", op, "--base", base, "--allow-library", "--json")
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "bench_run", "judge", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout), time.perf_counter() - begin


def main(runs: int, base: str, busy: int) -> int:
    kind = base.partition(":")[0]
    bad = 0
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stack.enter_context(busy_loops(busy))
        same, wrong = Path(folder) / "same.py", Path(folder) / "wrong.py"
        same.write_text(KERNELS[kind])
        wrong.write_text(WRONG[kind])
        for op in OPS:
            for _ in range(runs):
                found, took_s = judged(same, op, base)
                bad += found["verdict"] not in ("same", "undecided") or took_s > MOST_S
                ratio = found["speedup_ratio"]
                speed = "no speed" if ratio is None else f"{ratio:.3f}×"
                print(f"{op:<32} {found['verdict']:<10} {speed:<9} {took_s:5.1f} s", flush=True)
        found, took_s = judged(wrong, OPS[0], base)
        bad += found["verdict"] != "wrong" or took_s > MOST_WRONG_S
        print(f"{'a wrong relu':<32} {found['verdict']:<10} {'':<9} {took_s:5.1f} s")
    return int(bad > 0)


if __name__ == "__main__":
    script(main)
