"""The limits of the judge on real documents, where these lie beside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_schema import files

from bench_compare.comparison.compare import compare
from bench_compare.model import Verdict
from bench_compare.policy import Policy
from tests.bench_compare.build import side
from tests.benchmarks.judge_table import row

DOCUMENTS = Path(__file__).resolve().parents[4] / "shared" / "documents"
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not DOCUMENTS.is_dir(), reason=f"{DOCUMENTS} is not there"),
]


def documents(pattern):
    return [files.read(path) for path in sorted(DOCUMENTS.glob(pattern))]


@pytest.mark.parametrize(
    ("size", "unclear", "found"),
    [(1, 57, (40, 66, 88)), (2, 44, (50, 80, 90)), (3, 32, (65, 86, 92))],
)
def test_device_times_of_one_build_on_an_h100(size, unclear, found):
    effects = (0.015, 0.03, 0.05)
    counts, hits = row(documents("h100/base_*"), size, "device_ns", 0.01, effects, 12, seed=1)
    assert 100 * counts["unclear"] <= unclear * counts["verdicts"]
    assert counts["called"] + counts["beside"] <= 0.002 * (counts["verdicts"] + counts["of_beside"])
    assert [hits[effect] >= least for effect, least in zip(effects, found, strict=True)] == [
        True
    ] * 3


@pytest.mark.parametrize(
    ("threshold", "effects", "found"),
    [(0.01, (0.05, 0.1, 0.2), (45, 70, 95)), (0.05, (0.1, 0.2, 0.5), (70, 95, 98))],
)
def test_host_times_of_one_build_on_two_shared_cores(threshold, effects, found):
    counts, hits = row(documents("cpu/*"), 1, "e2e_ns", threshold, effects, 56, seed=1)
    false, of = counts["called"] + counts["beside"], counts["verdicts"] + counts["of_beside"]
    assert false <= 0.02 * of
    assert [hits[effect] >= least for effect, least in zip(effects, found, strict=True)] == [
        True
    ] * 3


def units(base, other):
    one, two = documents(f"two_units/{base}.*"), documents(f"two_units/{other}.*")
    return compare(side("a", *one), [side("b", *two)], Policy()).cases


@pytest.mark.parametrize("other", ["solo_2", "both0_1"])
def test_one_gpu_against_itself_changes_nothing(other):
    called = {case.verdict for case in units("solo_1", other)}
    assert called <= {Verdict.SAME, Verdict.UNCLEAR, Verdict.CLOCK}


def test_another_gpu_of_the_kind_is_faster_in_two_convolutions_and_that_is_provisional():
    faster = [case for case in units("solo_1", "solo1_1") if case.gate_metric.ratio < 0.9]
    assert ["conv_fwd", "conv_fwd"] == [case.name.split("_n")[0] for case in faster]
    assert all(case.gate_metric.provisional for case in faster)
    ratios = sorted(round(case.gate_metric.ratio, 2) for case in faster)
    assert ratios == pytest.approx([0.82, 0.87], abs=0.01)
