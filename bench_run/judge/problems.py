"""A folder of problems, each a folder with a case and its kernel: a line each."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_schema import files
from bench_schema.streams import write_text

from bench_run.errors import BenchRunError, UsageError
from bench_run.judge.ask import judge
from bench_run.judge.trial import joined
from bench_run.judge.verdict import summary_line, summary_of, verdict_of
from bench_run.options import Options, checked
from bench_run.runner.places import check_run_places
from bench_run.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_schema.document import Document

CASE, KERNELS = "case.py", ("kernel.py", "kernel.cu", "kernel.hip", "kernel.cpp", "kernel.c")


def problems_in(folder: Path) -> list[tuple[Path, Path]]:
    """Return the case and the kernel of each problem. Raises `UsageError` if there is none."""
    found = []
    for case in sorted(folder.glob(f"*/{CASE}")):
        kernel = next((each for k in KERNELS if (each := case.with_name(k)).is_file()), None)
        if kernel is None:
            wanted = case.with_name(KERNELS[0])
            raise UsageError(f"judge: {case.parent} has no kernel: write {wanted}")
        found.append((case, kernel))
    if not found:
        raise UsageError(
            f"judge: {folder} has no problems: a folder for each, with {CASE} and {KERNELS[0]}"
        )
    return found


def judge_problems(arguments: Mapping[str, Any], command: Sequence[str]) -> dict[str, Any]:
    """Judge every problem of the folder; return all answers with a summary."""
    folder, output = Path(arguments["KERNEL"]), arguments["--output"]
    for flag in ("--case", "--op"):
        if arguments[flag]:
            raise UsageError(f"{flag}: each problem of {folder} has its own {CASE}")
    check_run_places(checked(Options(output=output, force=arguments["--force"])))
    answers: list[dict[str, Any]] = []
    documents: dict[str, Document] = {}
    for case, kernel in problems_in(folder):
        reproduce = arguments["--reproduce"]
        words = {
            **arguments,
            "KERNEL": str(kernel),
            "--case": [str(case)],
            "--reproduce": None if reproduce is None else str(Path(reproduce) / case.parent.name),
        }
        try:
            found, document = judge(words, command, saves=False)
        except BenchRunError as error:
            found, document = _failed(kernel, str(error)), None
        answers.append({"problem": case.parent.name, **found})
        if document is not None:
            documents[case.parent.name] = document
        if not arguments["--json"]:
            write_text(sys.stdout, f"{case.parent.name:<24} {one_line(found['sentence'])}\n")
            sys.stdout.flush()
    if output is not None and documents:
        files.save(Path(output), joined(documents))
    summary = summary_of(answers)
    return {
        "verdict": verdict_of([each["verdict"] for each in answers]),
        "sentence": summary_line(summary),
        "summary": summary,
        "problems": answers,
        "document": output,
    }


def _failed(kernel: Path, reason: str) -> dict[str, Any]:
    """Return the answer on a kernel that did not even load."""
    return {
        "sentence": f"FAILED: {reason}",
        "verdict": "failed",
        "correct": False,
        "honest": True,
        "speedup_ratio": None,
        "kernel": f"kernel@{kernel}",
        "cases": [],
    }
