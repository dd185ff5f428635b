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
USAGE = f"""Write files to start from: a kernel and an operator of your own, or workflows
that measure your repository.

Usage:
  bench-run init kernel [options] [FRAMEWORK]
  bench-run init ci [options] [--op=OP]... [GRAPH]...

FRAMEWORK is {", ".join(FRAMEWORKS[:-1])} or {FRAMEWORKS[-1]} (default numpy); three
commands that measure the kernel are printed.

The workflows of GitHub are .github/workflows/bench-gate.yml, which compares
base and head of a pull request in pairs on one runner, and bench-nightly.yml,
which keeps an archive with pages. Call it at the root of the repository. SPEC
is what the repository holds:

  kernel@kernels/relu.py    a file of kernels
  hipdnn@build/plugins      a plugin, which --build makes
  torch                     a package that the engine imports: each side gets an
                            environment with it installed

Options:
  --op OP               an operation, as bench-run takes it; may be given again
  --engine SPEC         engine, with a path inside the repository (needed)
  --build COMMAND       what builds a side, run in its folder
  --threshold T         smallest change of interest (default 2%)
  --runner LABEL        runner of the jobs (default ubuntu-latest)
  --package NAME        what pip installs to get this tool
                        (default git+https://github.com/OWNER/dnn-bench)
  -o, --output DIR      folder for the files (default .)
  --force               replace files that are there
  -h, --help            show help

Examples:
  bench-run init kernel triton
  bench-run init ci --engine kernel@relu.py --op 'relu: dims=4096x4096'
  bench-run init ci --engine hipdnn@build --build 'cmake --build build' graphs/

bench-run help kernels explains kernels; bench-compare help ci the gate.
"""


def answer(arguments: Mapping[str, Any]) -> CommandOutput:
    """Run the command. Raises `UsageError` for an unknown framework or a path outside of the
    repository, and `OutputError` for an existing file."""
    if arguments["ci"]:
        from bench_run.commands.workflows import workflows

        return CommandOutput("\n".join(workflows(arguments)))
    from pathlib import Path

    from bench_schema.usage import nearest

    from bench_run.errors import UsageError
    from bench_run.files import write_new

    framework = arguments["FRAMEWORK"] or FRAMEWORKS[0]
    if framework not in FRAMEWORKS:
        raise UsageError(f"init: no framework {framework!r}{nearest(framework, FRAMEWORKS)}")
    examples = Path(__file__).parents[1] / "examples"
    folder = Path(arguments["--output"] or ".")
    suffix = SUFFIXES.get(framework, ".py")
    files = {f"{KERNEL}{suffix}": examples / f"in_{framework}{suffix}", CASE: examples / CASE}
    texts = {
        name: path.read_text(encoding="utf-8").replace(path.name, name)
        for name, path in files.items()
    }
    write_new(folder, texts, force=arguments["--force"])
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
