"""`bench-run init`: files to start from."""

from __future__ import annotations

from bench_run.commands import CommandOutput

TYPE_CHECKING = False  # keeps --help fast
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

FRAMEWORKS = ("numpy", "torch", "triton", "jax", "cupy", "cpp", "cuda")
SUFFIXES = {"cpp": ".cpp", "cuda": ".cu"}
"""Suffixes of kernels that are not in Python."""
KERNEL, CASE = "my_kernel", "my_case.py"
USAGE = f"""Write a kernel and an operator of your own to start from, and print three
commands that measure them.

Usage:
  bench-run init kernel [options] [FRAMEWORK]

FRAMEWORK is {", ".join(FRAMEWORKS[:-1])} or {FRAMEWORKS[-1]} (default numpy).

Options:
  -o, --output DIR      folder for the kernel and {CASE} (default .)
  --force               replace files that are there
  -h, --help            show help

bench-run help kernels explains both files.
"""


def answer(arguments: Mapping[str, Any]) -> CommandOutput:
    """Raises `UsageError` for an unknown framework and `OutputError` for a file that is there."""
    from pathlib import Path

    from bench_schema.usage import nearest

    from bench_run.errors import OutputError, UsageError
    from bench_run.files import writing

    framework = arguments["FRAMEWORK"] or FRAMEWORKS[0]
    if framework not in FRAMEWORKS:
        raise UsageError(f"init: no framework {framework!r}{nearest(framework, FRAMEWORKS)}")
    examples = Path(__file__).parents[1] / "user" / "examples"
    folder = Path(arguments["--output"] or ".")
    suffix = SUFFIXES.get(framework, ".py")
    files = {f"{KERNEL}{suffix}": examples / f"in_{framework}{suffix}", CASE: examples / CASE}
    for name in files:
        if (folder / name).exists() and not arguments["--force"]:
            raise OutputError(f"{folder / name}: is there already; --force replaces it")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, path in files.items():
            text = path.read_text(encoding="utf-8").replace(path.name, name)
            (folder / name).write_text(text, encoding="utf-8")
    return CommandOutput("\n".join(_commands(folder, framework)))


def _commands(folder: Path, framework: str) -> list[str]:
    kernel, case = folder / f"{KERNEL}{SUFFIXES.get(framework, '.py')}", folder / CASE
    op, against = "matmul: m=256 n=256 k=256", "numpy"
    if framework in ("triton", "cupy", "cuda"):
        against = "torch:cuda"
        op = f"{op} dtype=half" if framework == "triton" else "relu: dims=4096x4096"
    if framework == "torch":
        op, against = "sdpa: b=2 h=8 s=256 d=64 mask=causal", "torch"
    run = f"bench-run --op '{op}' --a {against} --b kernel@{kernel}"
    lines = [f"wrote {kernel} and {case}; now type", f"  {run}", f"  {run} --watch"]
    return [*lines, f"  bench-run {case} --a numpy --b kernel@{case} --adversarial"]
