"""What the panel of a case holds, however its document was read."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from bench_compare.comparison.compare import compare
from bench_compare.metrics import PHASES
from bench_compare.model import Side, Source
from bench_compare.policy import Policy
from bench_compare.report.html import details
from tests.bench_compare.report.unblock import unblocked
from tests.benchmarks import html_size


def sides(documents):
    return [
        Side(label, (Source(f"{label}.json", one, "bench"),), ("cudnn",))
        for label, one in zip("ab", documents, strict=True)
    ]


def compared(documents, **changes):
    first, second = sides(documents)
    return compare(first, [second], Policy(**changes))


def panels(comparison):
    found = [unblocked(block.text) for block in details.blocks(comparison)]
    return list(itertools.chain.from_iterable(found))


def unlike(document):
    """Some cases lose a round, what devices told, a phase, the warm-up's end, all rounds."""
    changes = itertools.cycle(
        [
            lambda one: one,
            lambda one: replace(one, rounds=one.rounds[1:]),
            lambda one: replace(one, rounds=tuple(map(quiet, one.rounds))),
            lambda one: replace(one, init={n: v for n, v in one.init.items() if n != "plan_ns"}),
            lambda one: replace(one, rounds=tuple(map(cut, one.rounds))),
            lambda one: replace(one, rounds=(), init={}),
        ]
    )
    return replace(
        document, cases=[change(one) for change, one in zip(changes, document.cases, strict=False)]
    )


def quiet(one):
    return replace(one, telemetry_before=None, telemetry_after=None)


def cut(one):
    return replace(one, cut=dict.fromkeys(one.series, 3))


@pytest.fixture(scope="module")
def documents():
    first, second = html_size.documents(24, 60)
    return first, unlike(second)


def test_a_phase_is_told_once_by_its_metric_or_by_its_side(documents):
    phases = {"load_ns", "import_ns", "build_ns", "plan_ns", "first_run_ns"}
    everything, few = (
        panels(compared(documents, **one)) for one in ({}, {"metrics": ("device_ns",)})
    )
    for panel in everything:
        for place, side in enumerate(panel["sides"]):
            for phase in side.get("init", ()):
                assert (None, True) == (
                    side["init"][phase],
                    panel["metrics"][phase]["numbers"][place] is not None,
                )
    assert phases == set(few[0]["sides"][0]["init"]) <= set(PHASES)
    assert [400_000] * 24 == [panel["sides"][0]["init"]["load_ns"] for panel in few]
