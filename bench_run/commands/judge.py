"""`bench-run judge`: is a kernel correct, honest and faster? One line, one exit code."""

from __future__ import annotations

from bench_run.commands import CommandOutput, command_line

TYPE_CHECKING = False  # keeps --help fast
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from bench_schema.document import Document

    from bench_run.judge.trial import Question, Trial

THRESHOLD = "1%"
BUDGET_S = 15.0
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
TORCH = "torch:cuda"
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

        found = judge_problems(arguments)
    else:
        found, _ = judge(arguments)
    from bench_run.judge.verdict import CODES

    code = CODES[found["verdict"]]
    if arguments["--json"]:
        return CommandOutput(json.dumps(found, indent=2), code)
    return CommandOutput(found["sentence"], code)


def judge(
    arguments: Mapping[str, Any], *, saves: bool = True
) -> tuple[dict[str, Any], Document | None]:
    """Measure; return the answer as JSON has it, and the document, which is saved to the output of
    the command if `saves`."""
    import time

    from bench_run.judge.look import LIBRARY, look_at
    from bench_run.judge.trial import try_kernel
    from bench_run.judge.verdict import answer_of

    began_s = time.monotonic()
    question = question_of(arguments, saves=saves)
    path, name = _file_of(question.kernel)
    findings = [] if path is None else look_at(path, name, _operations(question))
    is_call = any(each.rule == LIBRARY for each in findings)
    if is_call and not arguments["--allow-library"]:
        return answer_of(None, question, findings=findings), None
    trial = try_kernel(question, began_s, command_line())
    return _answered(question, trial, findings, arguments["--reproduce"]), trial.document


def _answered(
    question: Question, trial: Trial, findings: Any, reproduce_in: str | None
) -> dict[str, Any]:
    import tempfile
    from pathlib import Path

    from bench_schema import files

    from bench_run.errors import OutputError
    from bench_run.judge.reproduce import reproduce
    from bench_run.judge.verdict import answer_of
    from bench_run.runner.stopping import comparison_record

    record = None
    if not trial.failing:
        with tempfile.TemporaryDirectory(prefix="bench-run-") as folder:
            path = Path(folder) / "judged.json"
            files.save(path, trial.document)
            sides = [str(path), "--group-by", "engine"]
            record = comparison_record(sides, question.threshold_ratio, "judge")
    found = answer_of(trial.document, question, record, findings, ran_out=trial.ran_out)
    if reproduce_in is not None and trial.failing:
        try:
            command, what = reproduce(trial.failing[0], reproduce_in, question.kernel)
        except OutputError as error:
            return {**found, "not_reproduced": str(error)}
        found |= {"reproducer": command, "reproducer_inputs": what, "next": [command]}
        found["sentence"] += f"; {reproduce_in} holds the inputs ({what}): {command}"
    return found


def question_of(arguments: Mapping[str, Any], *, saves: bool = True) -> Question:
    """Return the question of the command line. Raises `UsageError`."""
    import sys

    from bench_run.errors import UsageError
    from bench_run.judge.trial import Question
    from bench_run.options import Options, checked
    from bench_run.options.read import read_ratio
    from bench_run.runner.places import check_run_places

    kernel = engine_of(arguments["KERNEL"])
    graphs = tuple(arguments["--case"])
    if not graphs and not arguments["--op"]:
        graphs = (_own_case(arguments["KERNEL"]),)
    most = arguments["--max-rounds"]
    if most is not None and not most.isdecimal():
        raise UsageError(f"--max-rounds: a number is expected, not {most!r}")
    question = Question(
        kernel=kernel,
        base=arguments["--base"] or default_base(),
        graphs=graphs,
        op=tuple(arguments["--op"]),
        threshold_ratio=read_ratio("--threshold", arguments["--threshold"] or THRESHOLD),
        max_rounds=Options.max_rounds if most is None else int(most),
        budget_s=budget_of(arguments["--budget"]),
        output=arguments["--output"] if saves else None,
        force=arguments["--force"],
        quiet=bool(arguments["--json"]) or not sys.stderr.isatty(),
    )
    check_run_places(checked(question.options()))
    return question


def budget_of(text: str | None) -> float:
    """Return the seconds of ``--budget``. Raises `UsageError`."""
    from bench_run.errors import UsageError

    try:
        found = BUDGET_S if text is None else float(text.removesuffix("s"))
    except ValueError:
        found = -1.0
    if not 0 < found < 1e6:
        raise UsageError(f"--budget: seconds are expected, as in --budget 60, not {text!r}")
    return found


SUFFIXES = (".py", ".cu", ".hip", ".cpp", ".cc", ".cxx", ".c", ".so")


def engine_of(kernel: str) -> str:
    """Return the engine spec of a file of kernels; any other text is one."""
    return f"kernel@{kernel}" if "@" not in kernel and kernel.endswith(SUFFIXES) else kernel


def _file_of(spec: str) -> tuple[str | None, str | None]:
    """Return path and function of a spec of a file; None for other engines."""
    name, has_path, path = spec.partition("@")
    head = name.partition("+")[0]
    if not has_path or head.partition(":")[0] != "kernel":
        return None, None
    return path, head.partition(":")[2] or None


def _operations(question: Question) -> frozenset[str]:
    """Return names that the function for an operation of the question may have."""
    names = {op.partition(":")[0].strip() for op in question.op}
    return frozenset(names | {name.removesuffix("_fwd") for name in names})


def _own_case(kernel: str) -> str:
    """Return the file of the kernel, which holds an operator too. Raises `UsageError` if it does
    not."""
    import re
    from pathlib import Path

    from bench_run.errors import UsageError

    path = Path(kernel.partition("@")[2] or kernel)
    if path.suffix == ".py" and path.is_file():
        text = path.read_text(encoding="utf-8", errors="replace")
        if re.search(r"^INPUTS\s*=", text, re.MULTILINE):
            return str(path)
    raise UsageError(
        f"judge: on which operation? {path} has no operator of its own (INPUTS, OUTPUTS, "
        "reference): give --op 'relu: dims=1024x1024', or --case GRAPH"
    )


def default_base() -> str:
    """Return PyTorch on a GPU, which runs every operation, otherwise what ``auto`` stands for."""
    from bench_run.engines import availability, choose_auto

    return TORCH if availability(TORCH).ok else choose_auto()[0]
