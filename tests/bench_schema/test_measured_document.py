"""What the code says of a real run: 158 graphs on three engines of an H200, 474 cases."""

from __future__ import annotations

import re
from dataclasses import asdict

import pytest
from bench_schema import codec, files
from bench_schema.merge import find_device, summaries, with_rates

from bench_run.commands.run import exit_code
from bench_run.report.console import table
from bench_run.report.formats import FORMATS


@pytest.fixture(scope="module")
def document(root):
    return files.read(root / "tests" / "data" / "gpu" / "three_engines_h200.json.gz")


@pytest.mark.long
def test_statistics_from_the_samples_are_those_that_were_recorded(document):
    measured = [case for case in document.cases if case.rounds]
    assert len(measured) > 400
    for case in measured:
        again = {name: asdict(summary) for name, summary in summaries(case.rounds).items()}
        recorded = {name: asdict(summary) for name, summary in case.summary.items()}
        assert {name: pytest.approx(row, rel=1e-12) for name, row in recorded.items()} == again


def test_rates_and_shares_of_the_ceiling_are_those_that_were_recorded(document):
    engines = {engine.key: engine for engine in document.engines}
    shares = []
    for case in document.cases:
        again = with_rates(case, find_device(document.machine, engines[case.engine].device))
        if case.achieved is not None:
            assert case.achieved == again.achieved
            shares.append(case.achieved.ceiling_share)
    assert len([share for share in shares if share is not None]) > 300


def test_it_comes_back_byte_for_byte(document):
    text = codec.encode(document)
    assert text == codec.encode(codec.decode(text, "again"))


def test_every_wrong_case_is_told_in_the_table_and_in_markdown(document):
    checks = [case.validation for case in document.cases if case.validation is not None]
    wrong = [check for check in checks if check.status == "failed"]
    for text in (table(document), FORMATS["markdown"](document)):
        rows = [line for line in text.splitlines() if re.search(r"\d+ wrong", line)]
        assert 7 == len(wrong) == len(rows)


def test_wrong_outputs_are_the_exit_code(document):
    assert 2 == exit_code(document)
