"""Nineteen graphs on every NVIDIA library, measured in turns in one run.

Usage:
  nvidia_libraries.py [--old=PYTHON] [--rounds=N] [--iters=N] [-o FILE]

Options:
  --old=PYTHON  interpreter with another cuDNN frontend, as a second `cudnn`
  --rounds=N    [default: 3]
  --iters=N     [default: 50]
  -o FILE       keep the result document

Prints the median device time of each graph on each engine, microseconds, `!` where the outputs are
wrong at strict arithmetic, and with --old the geometric mean of the new frontend's times over the
old one's.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from docopt import docopt

SPECS = (
    "conv_fwd: n=32 c=128 h=28 w=28 k=256 r=3 s=3 pad=1 dtype=half layout=nhwc",
    "conv_fwd: n=32 c=64 h=56 w=56 k=64 r=1 s=1 dtype=half layout=nhwc",
    "conv_fwd: n=32 c=128 h=28 w=28 k=128 r=3 s=3 pad=1 dtype=float layout=nchw",
    "conv_dgrad: n=32 c=128 h=28 w=28 k=128 r=3 s=3 pad=1 dtype=half layout=nhwc",
    "conv_wgrad: n=32 c=128 h=28 w=28 k=128 r=3 s=3 pad=1 dtype=half layout=nhwc",
    "matmul: m=4096 n=4096 k=4096 dtype=bfloat16",
    "matmul: m=16 n=4096 k=4096 dtype=half",
    "matmul: batch=16 m=1024 n=1024 k=64 dtype=half",
    "matmul: m=2048 n=2048 k=2048 dtype=float",
    "matmul+bias+relu: m=4096 n=4096 k=1024 dtype=half",
    "matmul+bias+gelu: m=4096 n=4096 k=1024 dtype=bfloat16",
    "relu: n=32 c=256 h=56 w=56 dtype=half layout=nhwc",
    "add: n=32 c=256 h=56 w=56 dtype=half layout=nhwc",
    "layernorm: n=4 s=2048 h=4096 dtype=bfloat16",
    "rmsnorm: n=4 s=2048 h=4096 dtype=bfloat16",
    "batchnorm_inference: n=32 c=256 h=56 w=56 dtype=half layout=nhwc",
    "batchnorm_training: n=32 c=128 h=28 w=28 dtype=half layout=nhwc",
    "sdpa: b=4 h=32 hk=8 s=2048 d=128 dtype=bfloat16 mask=causal",
    "sdpa_bwd: b=4 h=16 s=1024 d=64 dtype=half",
)
ENGINES = ("cublaslt", "torch:cuda", "torch:cuda+compile", "onnxruntime:cuda")


def measured(path, engines, options):
    """Text of each engine's median by graph, and the medians themselves."""
    words = [word for spec in SPECS for word in ("--op", spec)]
    words += [word for engine in engines for word in ("--engine", engine)]
    words += ["--rounds", options["--rounds"], "--iters", options["--iters"], "-o", str(path)]
    subprocess.run([sys.executable, "-m", "bench_run", *words, "--quiet"], check=False)
    texts, medians = {}, {}
    for case in json.loads(path.read_text())["cases"]:
        name, engine = case["graph"]["name"], case["engine"]
        texts.setdefault(name, {})[engine] = "-"
        if "device_ns" in case["summary"]:
            found = case["summary"]["device_ns"]["median"] / 1e3
            is_right = case["validation"] and case["validation"]["status"] == "passed"
            texts[name][engine] = f"{found:.2f}" + ("" if is_right else "!")
            medians.setdefault(name, {})[engine] = found
    return texts, medians


def main():
    options = docopt(__doc__)
    old = [f"cudnn+python={options['--old']}"] if options["--old"] else []
    engines = ["cudnn", *old, *ENGINES]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(options["-o"] or Path(folder) / "table.json")
        texts, medians = measured(path, engines, options)
    print(f"{'':40}" + "".join(f"{each.partition('=')[0][-18:]:>20}" for each in engines))
    for name, found in texts.items():
        print(f"{name[:40]:40}" + "".join(f"{found.get(each, '-'):>20}" for each in engines))
    if old:
        both = [each for each in medians.values() if {"cudnn", *old} <= each.keys()]
        ratio = statistics.geometric_mean(each["cudnn"] / each[old[0]] for each in both)
        print(f"the new frontend takes {100 * (ratio - 1):+.2f} % of {len(both)} graphs")


if __name__ == "__main__":
    main()
