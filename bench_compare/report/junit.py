"""JUnit XML: what fails is what fails the command, and what has no answer is skipped, because a
pass would claim what was not shown."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

from bench_schema.names import safe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_schema.report.model import Report

    from bench_compare.model import View


def render(report: Report, view: View) -> str:  # noqa: ARG001 - every case is a test
    assert report.suite is not None
    told = report.suite()
    suite = ET.Element("testsuite", name=safe(f"{told.name}: {report.conclusion.line}"))
    hint = report.conclusion.hint
    _properties(suite, told.properties if hint is None else {"hint": hint, **told.properties})
    for test in told.tests:
        element = ET.SubElement(suite, "testcase", classname=safe(test.group), name=safe(test.name))
        _properties(element, test.properties)
        if test.result != "passed":
            result = ET.SubElement(
                element, test.result, message=safe(test.message.partition("\n")[0])
            )
            if test.result != "skipped":
                result.set("type", test.kind)
                result.text = _lines(tuple(test.text.split("\n")))
        _output(element, test.output)
    _output(suite, told.output)
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _properties(parent: ET.Element, facts: Mapping[str, str]) -> None:
    if not facts:
        return
    properties = ET.SubElement(parent, "properties")
    for name, value in facts.items():
        ET.SubElement(properties, "property", name=safe(name), value=safe(value))


def _output(parent: ET.Element, lines: tuple[str, ...]) -> None:
    if lines:
        ET.SubElement(parent, "system-out").text = _lines(lines)


def _lines(lines: tuple[str, ...]) -> str:
    return "\n".join(map(safe, lines))
