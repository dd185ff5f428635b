"""JUnit XML: each series is a test; a new regression fails it, what is unclear is skipped."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

from bench_compare.history.model import BAD_STATES
from bench_compare.report.history.words import headline, size_text, state_of
from bench_compare.report.names import safe
from bench_compare.report.units import change_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_compare.history.model import EventInfo, History, SeriesInfo


def render(history: History, width: int = 80) -> str:  # noqa: ARG001
    suite = ET.Element("testsuite", name=safe(f"bench-compare history: {history.title}"))
    for number, problem in enumerate(history.problems, start=1):
        test = ET.SubElement(suite, "testcase", classname="history", name=f"problem {number}")
        ET.SubElement(test, "error", message=safe(problem), type="no answer").text = safe(problem)
    for event in history.events:
        if event.gates and not event.changes:
            test = ET.SubElement(suite, "testcase", classname="suite", name=safe(event.sentence))
            _fail(test, [event], history)
    unclear = {one.series: one.ratio for one in history.unclear}
    for one in history.series:
        _case(suite, one, history, unclear)
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    ET.SubElement(suite, "system-out").text = safe(headline(history))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _case(suite: ET.Element, one: SeriesInfo, history: History, unclear: dict[str, float]) -> None:
    group = ".".join(safe(part) for part in (one.engine, one.family))
    name = safe(f"{one.name} {one.variant} {one.settings}".replace("  ", " "))
    test = ET.SubElement(suite, "testcase", classname=group, name=name)
    mine = [e for e in history.events if any(c.series == one.id for c in e.changes)]
    bad = [e for e in mine if e.gates and _open(e, one.id)]
    if bad:
        _fail(test, bad, history)
    elif one.id in unclear:
        text = f"unclear: {change_text(unclear[one.id])} in the newest build, once"
        ET.SubElement(test, "skipped", message=text)
    lines = [f"{e.id} {e.sentence} {size_text(e)} {state_of(e, history)}".rstrip() for e in mine]
    if lines:
        ET.SubElement(test, "system-out").text = "\n".join(map(safe, lines))


def _open(event: EventInfo, series: str) -> bool:
    """Whether the series is one that makes the event gate."""
    return any(
        change.series == series
        and not change.acknowledged
        and (change.ratio is None or change.ratio > 1)
        for change in event.changes
    )


def _fail(test: ET.Element, events: Sequence[EventInfo], history: History) -> None:
    broken = any(event.kind in BAD_STATES for event in events)
    tag = "error" if any(event.kind == "broken" for event in events) else "failure"
    lines = [f"{e.sentence} {size_text(e)} {state_of(e, history)}".rstrip() for e in events]
    lines += [f"why? {cause}" for event in events for cause in event.causes]
    kind = events[0].kind if broken else "slower"
    element = ET.SubElement(test, tag, message=safe(lines[0]), type=kind)
    element.text = "\n".join(map(safe, lines))
