"""From the words of the command to the answer: question, trial, comparison, reproducer.

What takes long to import is imported while the engines' libraries are.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_run.engines import availability, choose_auto
from bench_run.errors import OutputError, UsageError
from bench_run.judge import BUDGET_S, THRESHOLD
from bench_run.judge.look import LIBRARY, look_at
from bench_run.judge.question import Question
from bench_run.options import Options
from bench_run.options.read import read_ratio
from bench_run.runner.early import early_launcher

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_schema.document import Document

    from bench_run.judge.trial import Trial

TORCH = "torch:cuda"


def judge(
    arguments: Mapping[str, Any], command: Sequence[str], *, saves: bool = True
) -> tuple[dict[str, Any], Document | None]:
    """Measure; return the answer as JSON has it, and the document, which is saved to the output of
    the command if `saves`."""
    began_s = time.monotonic()
    question = question_of(arguments, saves=saves)
    path, name = _file_of(question.kernel)
    findings = [] if path is None else look_at(path, name, _operations(question))
    is_call = any(each.rule == LIBRARY for each in findings)
    if is_call and not arguments["--allow-library"]:
        from bench_run.judge.verdict import answer_of
        from bench_run.options import Sources, grouped
        from bench_run.plan.load import gather

        gather(grouped(Sources, question.options()))  # raises where there is no such operation
        return answer_of(None, question, findings=findings), None
    with early_launcher(question.options(), question.launcher) as launcher:
        from bench_run.judge.trial import try_kernel

        trial = try_kernel(question, began_s + question.budget_s, command, launcher)
    return _answered(question, trial, findings, arguments["--reproduce"]), trial.document


def _answered(
    question: Question, trial: Trial, findings: Any, reproduce_in: str | None
) -> dict[str, Any]:
    from bench_schema import files

    from bench_run.judge.reproduce import reproduce
    from bench_run.judge.verdict import answer_of
    from bench_run.runner.referee import comparison_record

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
            found["sentence"] += f"; --reproduce: {error}"
            return {**found, "not_reproduced": str(error)}
        found |= {"reproducer": command, "reproducer_inputs": what, "next": [command]}
        found["sentence"] += f"; {reproduce_in} holds the inputs ({what}): {command}"
    return found


def question_of(arguments: Mapping[str, Any], *, saves: bool = True) -> Question:
    """Return the question of the command line. Raises `UsageError`."""
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
    check_run_places(question.options())
    return question


def budget_of(text: str | None) -> float:
    """Return the seconds of ``--budget``. Raises `UsageError`."""
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
    return TORCH if availability(TORCH).ok else choose_auto()[0]
