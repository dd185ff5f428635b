"""`bench-run judge`: is a kernel correct, honest and faster? One line, one exit code."""

from __future__ import annotations

from bench_run.commands import CommandOutput, command_line

TYPE_CHECKING = False  # keeps --help fast
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from bench_schema.document import Case, Document

THRESHOLD = "1%"
USAGE = f"""Judge a kernel: correct, honest, and faster by how much. For scripts and agents.

Usage:
  bench-run judge [options] [--case=FILE]... [--op=OP]... [KERNEL]

KERNEL is a file of kernels, kernel:NAME@FILE, or any engine. It runs in turns
with the base, in fresh processes; its outputs are compared with float64 on
ordinary and on adversarial inputs, in a process that never loads its code.

Options:
  --op OP               operation, as in 'matmul: m=256 n=256 k=256'; may be
                        given again
  --case FILE           graph, or file with an operator of your own; may be
                        given again (default: KERNEL, if it holds one)
  --base SPEC           engine that it must beat (default: torch:cuda if it
                        can run here, else that of bench-run --engine auto)
  --threshold T         smallest change of interest (default {THRESHOLD})
  --max-rounds N        upper limit of rounds (default 30)
  --json                the answer as JSON, in place of the line
  -o, --output FILE     keep the result document
  --force               replace the run that this file holds
  --tool                print the description of this command as a tool, as JSON
  -h, --help            show help

Exit codes: 0 correct, honest and not slower; 2 wrong, dishonest, failed or
slower; 1 undecided, or the question could not be answered.

Examples:
  bench-run judge my_kernel.py --op 'matmul: m=256 n=256 k=256'
  bench-run judge my_case.py --json
  bench-run judge my_kernel.py --case graphs/attention.json --base cudnn --json
"""
CODES = {"faster": 0, "same": 0, "undecided": 1, "failed": 2, "wrong": 2, "dishonest": 2}
CODES["slower"] = 2
TORCH = "torch:cuda"
FIRST_ITERATIONS = 5
"""Iterations of the round that finds kernels that are wrong."""
UNFIT = ("failed", "wrong", "dishonest")
WORST = (*UNFIT, "slower", "undecided")
"""Answers of which one case is enough."""
TOOL: dict[str, object] = {
    "name": "judge_kernel",
    "description": (
        "Runs a GPU or CPU kernel against a base in turns and says whether it is correct, honest "
        "and faster. Call it as: bench-run judge KERNEL --op OP --json. Exit code 0: correct, "
        "honest and not slower; 2: wrong, dishonest, failed or slower; 1: undecided. The answer "
        "has verdict (faster, same, slower, undecided, wrong, dishonest, failed), correct, honest, "
        "speedup_ratio with its 95 % interval, and a reason for each case."
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
        },
        "required": ["kernel"],
    },
}


def answer(arguments: Mapping[str, Any]) -> CommandOutput:
    """Run the command. Raises `UsageError` if nothing can be judged."""
    import json

    if arguments["--tool"]:
        return CommandOutput(json.dumps(TOOL, indent=2))
    if arguments["KERNEL"] is None:
        from bench_run.errors import UsageError

        raise UsageError(
            "judge: which kernel? bench-run judge my_kernel.py --op 'relu: dims=64x64'"
        )
    judged = judge(arguments)
    code = CODES[judged["verdict"]]
    if arguments["--json"]:
        return CommandOutput(json.dumps(judged, indent=2), code)
    return CommandOutput(judged["sentence"], code)


def judge(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Measure, and return the answer as JSON has it."""
    import tempfile
    from dataclasses import replace
    from pathlib import Path

    from bench_schema import files

    from bench_run.errors import UsageError
    from bench_run.options import Options, checked
    from bench_run.options.read import read_ratio
    from bench_run.runner.benchmark import run_benchmark
    from bench_run.runner.places import check_run_places
    from bench_run.runner.stopping import comparison_record

    kernel = engine_of(arguments["KERNEL"])
    graphs = tuple(arguments["--case"])
    if not graphs and not arguments["--op"]:
        graphs = (_own_case(arguments["KERNEL"]),)
    base = arguments["--base"] or _default_base()
    most = arguments["--max-rounds"]
    if most is not None and not most.isdecimal():
        raise UsageError(f"--max-rounds: a number is expected, not {most!r}")
    threshold = read_ratio("--threshold", arguments["--threshold"] or THRESHOLD)
    output = arguments["--output"]
    options = Options(
        graphs=graphs,
        op=tuple(arguments["--op"]),
        a=base,
        b=kernel,
        until="decided",
        threshold_ratio=threshold,
        rounds=Options.rounds if most is None else max(1, min(Options.rounds, int(most))),
        max_rounds=Options.max_rounds if most is None else int(most),
        reference="auto",
        adversarial=True,
        strict=True,
        quiet=True,
        output=output,
        force=arguments["--force"],
    )
    check_run_places(checked(options))
    first = replace(
        options,
        a=None,
        b=None,
        engine=(base, kernel),
        rounds=1,
        iterations=FIRST_ITERATIONS,
        until=None,
        threshold_ratio=Options.threshold_ratio,
        max_rounds=Options.max_rounds,
        output=None,
    )
    # A kernel that is wrong needs no time: one round tells.
    tried = run_benchmark(checked(first), command_line())
    found = answer_of(tried, base, kernel, None, output)
    if found["verdict"] in UNFIT:
        if output is not None:
            files.save(Path(output), tried)
        return found
    _check_base(tried, base)
    document = run_benchmark(checked(options), command_line())
    with tempfile.TemporaryDirectory(prefix="bench-run-") as folder:
        path = output or str(Path(folder) / "judged.json")
        if output is None:
            files.save(Path(path), document)
        record = comparison_record([path, "--group-by", "engine"], threshold, "judge")
    return answer_of(document, base, kernel, record, output)


SUFFIXES = (".py", ".cu", ".hip", ".cpp", ".cc", ".cxx", ".c", ".so")


def engine_of(kernel: str) -> str:
    """Return the engine spec of a file of kernels; any other text is one."""
    return f"kernel@{kernel}" if "@" not in kernel and kernel.endswith(SUFFIXES) else kernel


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


def _default_base() -> str:
    """Return PyTorch on a GPU, which runs every operation, otherwise what ``auto`` stands for."""
    from bench_run.engines import availability, choose_auto

    return TORCH if availability(TORCH).ok else choose_auto()[0]


def _check_base(document: Document, base: str) -> None:
    """Raise `UsageError` if the base completed no case: then nothing has a speed."""
    from bench_run.errors import UsageError

    cases = [case for case in document.cases if case.engine == document.engines[0].key]
    if not any(case.outcome.status == "completed" for case in cases):
        case = cases[0]
        raise UsageError(
            f"judge: the base {base} does not run {case.graph.name} ({case.outcome.reason}); name "
            "another engine: --base torch, or --base numpy"
        )


def answer_of(
    document: Document,
    base: str,
    kernel: str,
    record: Mapping[str, Any] | None = None,
    output: str | None = None,
) -> dict[str, Any]:
    """Return the answer on the cases of the last engine of a document. `record`: its comparison
    with the base, as bench-compare writes it; without it no case has a speed."""
    key = document.engines[-1].key
    compared = {
        one["other"]["case"]: one
        for one in ([] if record is None else record["cases"])
        if one["base"] and one["other"]
    }
    cases = [judged_case(one, compared.get(one.id)) for one in document.cases if one.engine == key]
    verdict = verdict_of([case["verdict"] for case in cases])
    suite = [] if record is None else record["suite"]
    speed = next((one for one in suite if one["scope"] == "all" and one["ratio"]), None)
    found: dict[str, Any] = {
        "verdict": verdict,
        "correct": all(case["correct"] for case in cases),
        "honest": all(case["honest"] for case in cases),
        **_speedup(speed),
        "kernel": kernel,
        "base": base,
        "cases": cases,
        "document": output,
    }
    return {"sentence": _sentence(found), **found}


def verdict_of(verdicts: Sequence[str]) -> str:
    """Return the worst answer of all cases; same only where none is faster."""
    if not verdicts:
        return "failed"
    for word in WORST:
        if word in verdicts:
            return word
    return "faster" if "faster" in verdicts else "same"


def _speedup(ratio: Mapping[str, Any] | None) -> dict[str, float | None]:
    """Time of the base over that of the kernel, with its 95 % interval, from other over base."""
    keys = {"speedup_ratio": "ratio", "speedup_low_ratio": "ci_high"}
    keys["speedup_high_ratio"] = "ci_low"
    return {
        name: 1 / ratio[key] if ratio is not None and ratio[key] else None
        for name, key in keys.items()
    }


def judged_case(case: Case, compared: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the answer on one case of the kernel."""
    metric = None if compared is None else compared["metrics"].get(compared["gate"])
    doubt = _doubt(case)
    check = case.validation
    completed = case.outcome.status == "completed"
    correct = completed and check is not None and check.status == "passed"
    if not completed:
        verdict, reason = "failed", case.outcome.reason
    elif doubt is not None:
        verdict, reason = "dishonest", doubt
    elif check is None or check.status == "not checked":
        why = None if check is None else check.reason
        verdict, reason = "undecided", f"outputs not checked: {why or 'no reference'}"
    elif not correct:
        verdict, reason = "wrong", check.reason
    elif metric is None:
        verdict, reason = "undecided", "the base did not complete it"
    else:
        moved = {"faster": "faster", "slower": "slower", "same": "same"}
        verdict, reason = moved.get(metric["verdict"], "undecided"), metric["reason"]
    return {
        "name": case.graph.name,
        "verdict": verdict,
        "correct": correct,
        "honest": doubt is None,
        **_speedup(metric),
        "time_ns": None if metric is None else metric["other"],
        "base_time_ns": None if metric is None else metric["base"],
        "reason": reason,
    }


def _doubt(case: Case) -> str | None:
    """Return the reason why the times or outputs are not those of the work; None: nothing speaks
    against it."""
    if case.implausible is not None:
        return case.implausible
    check = case.validation
    if check is None:
        return None
    if check.inputs_unchanged is False:
        return "it changed its inputs"
    if 0 < check.iterations_mismatched < check.iterations_checked:
        return check.reason
    return None


def _sentence(found: Mapping[str, Any]) -> str:
    """Return one line for a terminal."""
    word, cases = found["verdict"], found["cases"]
    bad = next((case for case in cases if case["verdict"] == word), None)
    if word in UNFIT:
        why = f"{bad['name']}: {bad['reason']}" if bad else "no case ran"
        return f"{word.upper()}: {why}"
    number = f"{len(cases)} case{'' if len(cases) == 1 else 's'}"
    ratio, low, high = (
        found[name] for name in ("speedup_ratio", "speedup_low_ratio", "speedup_high_ratio")
    )
    speed = "" if ratio is None else f" {ratio:.3g}× the speed of {found['base']}"
    if low is not None and high is not None:
        speed += f" (95 % CI {low:.3g}× to {high:.3g}×)"
    why = f"; {bad['name']}: {bad['reason']}" if word == "undecided" and bad else ""
    fit = "correct and honest" if found["correct"] else "not known to be correct"
    return f"{word.upper()}:{speed or ' no speed'}; {fit} in {number}{why}"
