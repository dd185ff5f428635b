"""`bench-run judge`: is a kernel correct, honest and faster? One line, one exit code."""

from __future__ import annotations

from bench_run.commands import CommandOutput, command_line
from bench_run.judge import BUDGET_S, THRESHOLD

TYPE_CHECKING = False  # keeps --help fast
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

USAGE = f"""Judge a kernel: correct, honest, and faster by how much. For scripts and agents.

Usage:
  bench-run judge [options] [--case=FILE]... [--op=OP]... [KERNEL]

KERNEL is a file of kernels, kernel:NAME@FILE, any engine, or a folder of
problems (NAME/case.py and NAME/kernel.py, a line each). It runs in turns with
the base, in fresh processes; its outputs are compared with float64 on ordinary
and on adversarial inputs, and its times with the clock of another process.

Options:
  --op OP               operation, as in 'matmul: m=256 n=256 k=256'; may be
                        given again
  --case FILE           graph, or file with an operator of your own; may be
                        given again (default: KERNEL, if it holds one)
  --base SPEC           engine that it must beat (default: torch:cuda if it
                        can run here, else that of bench-run --engine auto)
  --threshold T         smallest change of interest (default {THRESHOLD})
  --budget S            seconds for the answer: no round begins that would end
                        later; the first one is always run (default {BUDGET_S:g})
  --max-rounds N        upper limit of rounds (default 30)
  --allow-library       judge a kernel that only calls a library, too
  --reproduce DIR       write the first inputs on which it is wrong to DIR
  --json                the answer as JSON, in place of the line
  -o, --output FILE     keep the result document
  --force               replace the run that this file holds
  --tool                print the description of this command as a tool, as JSON
  -h, --help            show help

Exit codes: 0 correct, honest and not slower; 2 wrong, dishonest, failed, slower
or only a call of a library; 1 undecided, or the question could not be answered.

Examples:
  bench-run judge my_kernel.py --op 'matmul: m=256 n=256 k=256'
  bench-run judge my_case.py --json
  bench-run judge my_kernel.py --case graphs/attention.json --base cudnn --json
  bench-run judge problems/ -o judged.json
"""
TOOL: dict[str, object] = {
    "name": "judge_kernel",
    "description": (
        "Runs a GPU or CPU kernel against a base in turns and says whether it is correct, honest "
        "and faster. Call it as: bench-run judge KERNEL --op OP --json. Exit code 0: correct, "
        "honest and not slower; 2: wrong, dishonest, failed, slower or only a call of a library; "
        "1: undecided. The answer has verdict (faster, same, slower, undecided, wrong, dishonest, "
        "failed, library), correct, honest, speedup_ratio with its 95 % interval, for each case a "
        "reason and where_the_time_goes, findings of a look at the file, and next: what to type."
    ),
    "parameters": {
        "type": "object",
        "properties": {
            "kernel": {
                "type": "string",
                "description": "Path of a file with one function: parameters carry the names of "
                "the operation's tensors.",
            },
            "op": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Operations with shapes, as in 'matmul: m=256 n=256 k=256 "
                "dtype=half'.",
            },
            "case": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Paths of operation graphs, or of files with an operator of your "
                "own.",
            },
            "base": {"type": "string", "description": "Engine to beat: torch:cuda, cudnn, numpy."},
            "threshold": {"type": "string", "description": "Smallest change of interest: 1%."},
            "budget": {"type": "string", "description": "Seconds for the answer: 15."},
            "reproduce": {
                "type": "string",
                "description": "Folder for the first inputs on which the kernel is wrong.",
            },
        },
        "required": ["kernel"],
    },
}


def answer(arguments: Mapping[str, Any]) -> CommandOutput:
    """Run the command. Raises `UsageError` if nothing can be judged."""
    import json
    from pathlib import Path

    if arguments["--tool"]:
        return CommandOutput(json.dumps(TOOL, indent=2))
    if arguments["KERNEL"] is None:
        from bench_run.errors import UsageError

        raise UsageError(
            "judge: which kernel? bench-run judge my_kernel.py --op 'relu: dims=64x64'"
        )
    if Path(arguments["KERNEL"]).is_dir():
        from bench_run.judge.problems import judge_problems

        found = judge_problems(arguments, command_line())
    else:
        from bench_run.judge.ask import judge

        found, _ = judge(arguments, command_line())
    from bench_run.judge.verdict import CODES

    code = CODES[found["verdict"]]
    if arguments["--json"]:
        return CommandOutput(json.dumps(found, indent=2), code)
    return CommandOutput(found["sentence"], code)
