"""JUnit XML: each case is a test, and what fails is what fails the command.

broken → error; other bad news (slower, removed, newly wrong …) → failure; allowed bad news →
passed, told in system-out; no answer (unclear, incomparable, not measured) → skipped, because a
pass would claim what was not shown; everything else → passed. Bad news of the suite as a whole is
a test of its own, so are the reasons why nothing could be compared. A document of a run that did
not finish is a skipped test.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

from bench_compare.model import Verdict
from bench_compare.report import words
from bench_compare.report.names import safe
from bench_compare.report.units import change_text, interval_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_compare.model import BadNews, CaseComparison, Comparison, View

NO_ANSWER = frozenset({Verdict.UNCLEAR, Verdict.INCOMPARABLE, Verdict.UNMEASURED})
ERRORS = frozenset({Verdict.BROKEN})


def render(comparison: Comparison, view: View) -> str:  # noqa: ARG001 - every case is a test
    news = _by_case(comparison.bad_news)
    suite = ET.Element("testsuite", name=f"bench-compare {words.title(comparison)}")
    _properties(suite, _facts(comparison))
    for number, problem in enumerate(comparison.problems, start=1):
        test = ET.SubElement(suite, "testcase", classname="comparison", name=f"problem {number}")
        _result(test, "error", "not comparable", problem)
    _unfinished(suite, comparison)
    for item in news.get(None, ()):
        test = ET.SubElement(suite, "testcase", classname="suite", name=safe(item.name))
        _tell(test, [item])
    for case in comparison.cases:
        _case(suite, case, news.get(case.id, ()))
    if comparison.warnings:
        ET.SubElement(suite, "system-out").text = "\n".join(map(safe, comparison.warnings))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _unfinished(suite: ET.Element, comparison: Comparison) -> None:
    """A run that did not reach its end answers for less than its suite."""
    for side in (comparison.base, *comparison.others):
        for path in words.unfinished(side):
            test = ET.SubElement(suite, "testcase", classname="documents", name=safe(path))
            text = f"{side.label}: this run did not finish, cases or rounds may be missing"
            _result(test, "skipped", "unfinished run", text)


def _by_case(bad_news: Sequence[BadNews]) -> Mapping[str | None, list[BadNews]]:
    found: dict[str | None, list[BadNews]] = {}
    for item in bad_news:
        found.setdefault(item.case, []).append(item)
    return found


def _properties(parent: ET.Element, facts: Mapping[str, str]) -> None:
    properties = ET.SubElement(parent, "properties")
    for name, value in facts.items():
        ET.SubElement(properties, "property", name=safe(name), value=safe(value))


def _facts(comparison: Comparison) -> dict[str, str]:
    facts = {"counts": words.counts_text(comparison), **comparison.policy}
    for number in words.headline_numbers(comparison):
        facts[f"suite {number.metric} {number.other_label}"] = words.suite_text(number)
    for place, warning in enumerate(comparison.warnings, start=1):
        facts[f"warning {place}"] = warning
    for one in comparison.sensitivity:
        facts[f"sensitivity {one.other_label}"] = one.sentence
    for d in comparison.differences:
        facts[f"differs: {d.name} ({d.other_label})"] = f"{d.base} → {d.other}"
    return facts


def _case(suite: ET.Element, case: CaseComparison, news: Sequence[BadNews]) -> None:
    group = ".".join(safe(part) for part in (case.other_label, case.engine, case.family))
    test = ET.SubElement(suite, "testcase", classname=group, name=words.case_name(case))
    _properties(test, _numbers(case))
    if news:
        _tell(test, news)
    elif case.verdict in NO_ANSWER:
        _result(test, "skipped", str(case.verdict), case.reason)
    lines = [case.reason, *(f"{note.side}: {note.text}" for note in case.notes)]
    lines += [words.news_text(item) for item in news if item.allowed]
    ET.SubElement(test, "system-out").text = "\n".join(safe(line) for line in lines)


def _numbers(case: CaseComparison) -> dict[str, str]:
    base, other, metric = words.values(case)
    facts = {"id": case.id, "fingerprint": case.fingerprint, "verdict": words.verdict_text(case)}
    if metric is None:
        return facts
    facts |= {"metric": metric.metric, "base": base, "other": other}
    return facts | {
        "change": change_text(metric.ratio),
        "interval_95": interval_text(metric.ci_low, metric.ci_high),
    }


def _tell(test: ET.Element, news: Sequence[BadNews]) -> None:
    """One error or failure for all the bad news of a test, none where all of it is allowed."""
    loud = [item for item in news if not item.allowed]
    if not loud:
        return
    tag = "error" if any(item.verdict in ERRORS for item in loud) else "failure"
    kinds = ", ".join(dict.fromkeys(str(item.verdict) for item in loud))
    _result(test, tag, kinds, "\n".join(item.sentence for item in loud))


def _result(test: ET.Element, tag: str, kind: str, text: str) -> None:
    lines = [safe(line) for line in text.split("\n")]
    element = ET.SubElement(test, tag, message=f"{kind}: {lines[0]}")
    if tag != "skipped":
        element.set("type", kind)
        element.text = "\n".join(lines)
