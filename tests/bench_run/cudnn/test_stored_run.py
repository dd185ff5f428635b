"""A run of all graphs on three engines, measured on an H200 on 2026-11-21 and kept."""

from __future__ import annotations

from collections import Counter

import pytest
from bench_schema import files


@pytest.fixture(scope="module")
def document(root):
    return files.read(root / "tests" / "data" / "gpu" / "three_engines_h200.json.gz")


def test_every_engine_has_every_graph(document):
    counted = Counter(case.engine for case in document.cases)
    assert {"cudnn": 158, "torch:cuda": 158, "torch:cuda+compile": 158} == counted


def test_nothing_crashed_or_failed(document):
    found = {case.outcome.status for case in document.cases}
    assert {"completed", "unsupported"} == found


def test_no_case_that_passed_has_a_wrong_element(document):
    passed = [c for c in document.cases if c.validation and c.validation.status == "passed"]
    assert len(passed) > 400
    assert all(output.mismatched == 0 for case in passed for output in case.validation.outputs)


def test_what_is_unsupported_has_a_reason(document):
    refused = [c.outcome.reason for c in document.cases if c.outcome.status == "unsupported"]
    assert all(reason for reason in refused)


def test_the_share_of_the_roof_is_known(document):
    shares = [
        case.achieved.ceiling_share
        for case in document.cases
        if case.achieved is not None and case.achieved.ceiling_share is not None
    ]
    assert len(shares) > 300
    assert 0 < min(shares)
