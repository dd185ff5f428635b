"""The outputs that the README shows, taken from runs of the commands.

`python -m tests.readme_outputs` runs them in an empty folder and writes what they print between the
markers ``<!-- output NAME -->`` and ``<!-- end -->``; a test compares the form of both.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
PRODUCTS = (
    *("--op", "matmul: m=256 n=256 k=512"),
    *("--op", "matmul+bias+relu: m=128 n=512 k=256"),
    *("--op", "conv_fwd: n=1 c=64 h=28 w=28 k=64 r=3 s=3 pad=1"),
)
OLD_KERNELS = {"OPENBLAS_CORETYPE": "Prescott"}
_OUTPUT = re.compile(r"(<!-- output ([^>]+) -->\n```\n)(.*?)(```\n<!-- end -->)", re.DOTALL)


def shown(text):
    """What a page shows of each output, by its name."""
    return {match[2]: match[3] for match in _OUTPUT.finditer(text)}


def outputs(folder, *effort):
    """What the commands of the README print, in `folder`; `effort`: further words of the runs."""
    yield "bench-run suite:smoke", _said(folder, "bench_run", "suite:smoke", *effort)
    words = (*PRODUCTS, *effort, "--quiet", "-o")
    _said(folder, "bench_run", *words, "run_a.json", **OLD_KERNELS)
    _said(folder, "bench_run", *words, "run_b.json")
    text = _said(folder, "bench_compare", "run_a.json", "run_b.json", "--all")
    yield "bench-compare run_a.json run_b.json", text[text.index("\n        ") + 1 :]


def _said(folder, module, *words, **environment):
    command = [sys.executable, "-m", module, *words]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True
    )
    return done.stdout


def form(text):
    """The heads of the table and the number of its rows: what stays when the numbers change. Rows
    that are unclear have a table of their own, with the same heads."""
    lines = text.splitlines()
    heads = next(line for line in lines if re.search(r"\b(time|base)\b", line))
    return heads.split(), sum(bool(re.search(r"\d (ns|µs|ms| s)\b", line)) for line in lines)


def main():
    with tempfile.TemporaryDirectory() as folder:
        made = dict(outputs(folder))
    text = README.read_text(encoding="utf-8")
    filled = _OUTPUT.sub(lambda match: f"{match[1]}{made[match[2]].rstrip()}\n{match[4]}", text)
    README.write_text(filled, encoding="utf-8")


if __name__ == "__main__":
    main()
