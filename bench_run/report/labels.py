"""Labels that separate a case from others of its graph and engine: its variant, or its plan."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from bench_schema.estimate import main_series

from bench_run.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench_schema.document import Case, Document, EngineRecord


BY_PLACE = "index="
"""Ids that choose by a place in a list: the name of what was chosen differs from graph to graph."""


def implausible_first(document: Document) -> Document:
    """Return the document as tables show it: a time that is not believed stands before all
    others."""
    cases = sorted(document.cases, key=lambda case: case.implausible is None)
    return replace(document, cases=tuple(cases))


def implausible_lines(cases: Iterable[Case]) -> list[str]:
    """Return the reasons why times are not believed, a line for each such case."""
    return [
        f"{case.id}: implausible: {one_line(case.implausible)}"
        for case in cases
        if case.implausible is not None
    ]


_OWN_THREADS = re.compile(r"\+threads=(\d+)")


def threads_text(engine: EngineRecord, document: Document) -> str:
    """Return the number of threads of an engine on the processor, such as ``, 4 threads``; empty if
    it does not run there."""
    if engine.device != "cpu":
        return ""
    own = _OWN_THREADS.search(engine.key)
    threads = document.run.settings.threads if own is None else int(own[1])
    return f", {threads or 'all'} thread{'' if threads == 1 else 's'}"


def is_wrong(case: Case) -> bool:
    """Return True if outputs of the case are wrong: then its speed is not one."""
    return case.validation is not None and case.validation.status == "failed"


def plan_labels(document: Document) -> tuple[str, ...]:
    """Return one label for each case, in full; empty if graph and engine say everything. A plan's
    place in its engine's list stands before its name: it is short, and can be asked for again."""
    ids = {engine.key: engine.id or "" for engine in document.engines}
    labels = []
    for case in document.cases:
        label = ""
        if case.variant:
            place = [case.plan["index"]] if "index" in case.plan else []
            label = " ".join([*place, *(case.variant[key] for key in sorted(case.variant))])
        elif ids.get(case.engine, "").startswith(BY_PLACE):
            label = case.plan.get("plan", "")
        labels.append(one_line(label))
    return tuple(labels)


# The mark of device times that were taken without a gate: such events also hold the host's launch
# delays, which may double the time of a short kernel. No output shows them bare.

UNGATED = "*"
UNGATED_MEANS = "measured without a gate: device times that hold the host's launch delays"
WRONG = "wrong"
"""Word in place of a change, where a side has wrong outputs."""
UNLIKE = "unlike"
UNLIKE_MEANS = "one side was measured behind a gate and the other without: not to be compared"


def is_ungated(case: Case) -> bool:
    """Return True if the case's device times include the host's launch delays: events without a
    gate."""
    device = main_series(case.summary) == "device_ns"
    return device and device_timing(case) == "events"


def device_timing(case: Case) -> str:
    """Return the method that measured the case's device times; empty without any."""
    return ", ".join(sorted({r.device_timing for r in case.rounds if r.device_timing is not None}))


def are_unlike(a: Case, b: Case) -> bool:
    """Return True if the device times of two cases do not mean the same thing."""
    return is_ungated(a) != is_ungated(b)


def marked(text: str, case: Case) -> str:
    return text + (UNGATED if is_ungated(case) else "")


def footnotes(cases: Iterable[Case]) -> list[str]:
    """Return the meanings of the marks that occur."""
    return [f"{UNGATED} {UNGATED_MEANS}"] if any(map(is_ungated, cases)) else []


def own_numbers(document: Document) -> list[str]:
    """Return the names of the numbers of own observers (``--observer``)."""
    rounds = (one for case in document.cases for one in case.rounds)
    return list(dict.fromkeys(name for one in rounds for name in one.extra))


def own_text(case: Case, name: str) -> str:
    """Return the mean of such a number over the rounds, as text."""
    values = [one.extra[name].value for one in case.rounds if name in one.extra]
    return f"{sum(value / len(values) for value in values):.4g}" if values else ""
