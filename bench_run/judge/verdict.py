"""The answer on a kernel: a word for each case, the worst of them for all, and a sentence."""

from __future__ import annotations

import shlex
import statistics
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from bench_schema.estimate import main_series

from bench_run.judge.look import LIBRARY
from bench_run.judge.trial import cases_of
from bench_run.runner.outside import NOT_CHECKED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_schema.document import Case, Document

    from bench_run.judge.look import Finding
    from bench_run.judge.question import Question

CODES = {"faster": 0, "same": 0, "undecided": 1, "failed": 2, "wrong": 2, "dishonest": 2}
CODES |= {"slower": 2, LIBRARY: 2}
UNFIT = ("failed", "wrong", "dishonest")
WORST = (*UNFIT, LIBRARY, "slower", "undecided")
"""Answers of which one case is enough."""
TIMES = (1.0, 1.5, 2.0)
"""Speeds whose share of kernels a summary tells."""


def answer_of(
    document: Document | None,
    question: Question,
    record: Mapping[str, Any] | None = None,
    findings: Sequence[Finding] = (),
    *,
    ran_out: bool = False,
) -> dict[str, Any]:
    """Return the answer on the cases of the last engine of a document; None: nothing was run.
    `record`: its comparison with the base, as bench-compare writes it; without it no case has a
    speed. `findings`: of a look at its text."""
    compared = {
        one["other"]["case"]: one
        for one in ([] if record is None else record["cases"])
        if one["base"] and one["other"]
    }
    ran = [] if document is None else cases_of(document)
    cases = [judged_case(one, compared.get(one.id)) for one in ran]
    verdict = verdict_of([case["verdict"] for case in cases])
    called = next((each for each in findings if each.rule == LIBRARY), None)
    if document is None:
        verdict = LIBRARY
    suite = [] if record is None else record["suite"]
    speed = next((one for one in suite if one["scope"] == "all" and one["ratio"]), None)
    name = question.kernel.partition("@")[2] or question.kernel
    found: dict[str, Any] = {
        "verdict": verdict,
        "correct": all(case["correct"] for case in cases) if cases else None,
        "honest": all(case["honest"] for case in cases) if cases else None,
        **_speedup(speed),
        "kernel": question.kernel,
        "base": question.base,
        "cases": cases,
        "findings": [{**asdict(each), "place": f"{name}:{each.line}"} for each in findings],
        "document": question.output,
        "ran_out_of_time": ran_out,
        "next": _next(verdict, question, ran_out=ran_out),
    }
    return {"sentence": _sentence(found, called, name), **found}


def verdict_of(verdicts: Sequence[str]) -> str:
    """Return the worst answer of all cases; same only where none is faster."""
    if not verdicts:
        return "failed"
    for word in WORST:
        if word in verdicts:
            return word
    return "faster" if "faster" in verdicts else "same"


def _speedup(ratio: Mapping[str, Any] | None) -> dict[str, float | None]:
    """Return the base's time over the kernel's with its 95 % interval, from other over base."""
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
    unclocked = _unclocked(case)
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
        if unclocked is not None and verdict == "faster" and unclocked.endswith("to tell"):
            verdict, reason = "undecided", unclocked
    return {
        "name": case.graph.name,
        "verdict": verdict,
        "correct": correct,
        "honest": doubt is None,
        **_speedup(metric),
        "time_ns": None if metric is None else metric["other"],
        "base_time_ns": None if metric is None else metric["base"],
        "reason": reason,
        "clock": unclocked,
        "where_the_time_goes": _where(case),
    }


def _unclocked(case: Case) -> str | None:
    """Return why no round's samples were checked by the clock of the run; None if some were."""
    if any(each.outside_ns is not None for each in case.rounds):
        return None
    return next((note for note in case.notes if note.startswith(NOT_CHECKED)), None)


def _where(case: Case) -> dict[str, Any]:
    """Return times by series, launches, and the share of what the machine reaches."""
    series = main_series(case.summary)
    medians = {name: row.median for name, row in case.summary.items()}
    outside = [each.outside_ns for each in case.rounds if each.outside_ns is not None]
    achieved = case.achieved
    return {
        "series": series,
        "median_ns": medians,
        "outside_ns": statistics.median(outside) if outside else None,
        "plan_ns": _init_ns(case, "plan_ns"),
        "first_run_ns": _init_ns(case, "first_run_ns"),
        "kernels": [asdict(kernel) for kernel in case.kernels],
        "tflops": None if achieved is None else achieved.tflops,
        "gbps": None if achieved is None else achieved.gbps,
        "ceiling_share": None if achieved is None else achieved.ceiling_share,
        "workspace_bytes": None if case.memory is None else case.memory.workspace_bytes,
    }


def _init_ns(case: Case, phase: str) -> float | None:
    found = case.init.get(phase)
    return None if found is None or not len(found) else float(np.median(found))


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


def words_of(question: Question, *more: str) -> str:
    """Return a command line that asks the same."""
    kernel = question.kernel.removeprefix("kernel@")
    words = ["bench-run", "judge", kernel]
    words += [word for op in question.op for word in ("--op", op)]
    words += [word for case in question.graphs for word in ("--case", case)]
    return shlex.join([*words, "--base", question.base, *more])


def _next(verdict: str, question: Question, *, ran_out: bool = False) -> list[str]:
    """Return command lines that tell more."""
    if verdict in ("wrong", "dishonest"):
        return [words_of(question, "--reproduce", "failing")]
    if verdict == "failed":
        engine = ("bench-run", *(w for op in question.op for w in ("--op", op)), *question.graphs)
        return [shlex.join([*engine, "--engine", question.kernel, "-v"])]
    if verdict == LIBRARY:
        return [words_of(question, "--allow-library")]
    if verdict == "undecided":
        more = ("--budget", f"{4 * question.budget_s:g}") if ran_out else ("--max-rounds", "90")
        return [words_of(question, *more)]
    engine = ("bench-run", *(w for op in question.op for w in ("--op", op)), *question.graphs)
    return [shlex.join([*engine, "--a", question.base, "--b", question.kernel, "-v"])]


def _sentence(found: Mapping[str, Any], called: Finding | None, name: str) -> str:
    """Return one line for a terminal."""
    word, cases = found["verdict"], found["cases"]
    bad = next((case for case in cases if case["verdict"] == word), None)
    if word in UNFIT:
        why = f"{bad['name']}: {bad['reason']}" if bad else "no case ran"
        return f"{word.upper()}: {why}"
    number = f"{len(cases)} case{'' if len(cases) == 1 else 's'}"
    if word == LIBRARY and called is not None:
        return f"{word.upper()}: {called.words(name)}; --allow-library judges it"
    ratio, low, high = (
        found[key] for key in ("speedup_ratio", "speedup_low_ratio", "speedup_high_ratio")
    )
    speed = "" if ratio is None else f" {ratio:.3g}× the speed of {found['base']}"
    if low is not None and high is not None:
        speed += f" (95 % CI {low:.3g}× to {high:.3g}×)"
    why = f"; {bad['name']}: {bad['reason']}" if word == "undecided" and bad else ""
    if found["ran_out_of_time"] and word == "undecided":
        why += "; the time was used up (--budget)"
    fit = "correct and honest" if found["correct"] else "not known to be correct"
    if called is not None:
        fit += f"; {called.words(name)}"
    unclocked = next((case["clock"] for case in cases if case["clock"]), None)
    if unclocked is not None and unclocked not in why:
        why += f"; {unclocked}"
    return f"{word.upper()}:{speed or ' no speed'}; {fit} in {number}{why}"


def summary_of(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how many of several kernels are right, honest, and right and faster by a factor (the
    field's fast_p)."""
    right = [each for each in answers if each["correct"] and each["verdict"] not in UNFIT]
    return {
        "kernels": len(answers),
        "correct": sum(bool(each["correct"]) for each in answers),
        "honest": sum(bool(each["honest"]) for each in answers),
        **{
            f"fast_{factor:g}": sum((each["speedup_ratio"] or 0) > factor for each in right)
            for factor in TIMES
        },
    }


def summary_line(summary: Mapping[str, Any]) -> str:
    total = summary["kernels"]
    faster = ", ".join(f"{summary[f'fast_{factor:g}']} beyond {factor:g}×" for factor in TIMES)
    return (
        f"{total} kernels: {summary['correct']} correct, {summary['honest']} honest; "
        f"of the correct ones {faster}"
    )
