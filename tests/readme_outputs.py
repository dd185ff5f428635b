"""The outputs that the README shows, taken from runs of the commands.

`python -m tests.readme_outputs` runs them in an empty folder, on a machine with an NVIDIA GPU,
PyTorch and cuDNN, and writes what they print between the markers ``<!-- output NAME -->`` and
``<!-- end -->``; a test compares the form of both with that of other engines.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
LARGE = (
    "matmul: m=4096 n=4096 k=4096 dtype=half",
    "matmul+bias+relu: m=8192 n=4096 k=1024 dtype=half",
    "conv_fwd: n=32 c=128 h=28 w=28 k=256 r=3 s=3 pad=1 dtype=half layout=nhwc",
)
_OUTPUT = re.compile(r"(<!-- output ([^>]+) -->\n```\n)(.*?)(```\n<!-- end -->)", re.DOTALL)


def shown(text):
    """What a page shows of each output, by its name."""
    return {match[2]: match[3] for match in _OUTPUT.finditer(text)}


def outputs(folder, a, b, ops, *effort):
    """What the commands of the README print, in `folder`, for two engines; `effort`: further words
    of the run."""
    given = [word for op in ops for word in ("--op", op)]
    run = ("--a", a, "--b", b, *effort, "-o", "ab.json")
    yield "bench-run --a torch:cuda --b cudnn", _said(folder, "bench_run", *given, *run)
    text = _said(folder, "bench_compare", "ab.json", "--group-by", "engine", "--all")
    table = re.search(r"^ +case .*", text, re.DOTALL | re.MULTILINE)
    yield "bench-compare ab.json --group-by engine", table[0]


def _said(folder, module, *words):
    command = [sys.executable, "-m", module, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout


def form(text):
    """The heads of the table and the number of its rows: what stays when the numbers change. Rows
    of another verdict have a table of their own, with the same heads."""
    lines = text.splitlines()
    heads = next(line for line in lines if "95 % CI" in line)
    return heads.split(), sum(bool(re.search(r"\d (ns|µs|ms| s)\b", line)) for line in lines)


def main():
    with tempfile.TemporaryDirectory() as folder:
        made = dict(outputs(folder, "torch:cuda", "cudnn", LARGE))
    text = README.read_text(encoding="utf-8")
    filled = _OUTPUT.sub(lambda match: f"{match[1]}{made[match[2]].rstrip()}\n{match[4]}", text)
    README.write_text(filled, encoding="utf-8")


if __name__ == "__main__":
    main()
