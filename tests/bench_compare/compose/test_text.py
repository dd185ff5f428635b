"""The terminal's answer fits into its window, and says nothing twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench_compare.compose.model import IntervalEstimate
from bench_compare.model import View
from tests.bench_compare.compose.sample import composition
from tests.bench_compare.report.shown import render

COMMAND = "    bench-run "
"""Lines that are copied as they stand."""


def lines(made, width):
    return [
        line
        for line in render("text", made, View(width=width)).splitlines()[:-1]
        if not line.startswith(COMMAND)
    ]


@pytest.mark.parametrize("width", [80, 100])
def test_no_line_is_wider_than_the_window_however_long_names_are(width):
    made = composition()
    long = "conv_fwd+bias+relu_n32c256h56w56k64r1s1_half_nhwc"
    parts = tuple(replace(part, layer=long, note=long) for part in made.chosen.parts)
    made = replace(made, baseline_name=long, chosen=replace(made.chosen, parts=parts))
    assert max(map(len, lines(made, width))) <= width


def test_seconds_are_written_with_one_blank():
    made = composition()
    slow = IntervalEstimate(20.8e9, 19e9, 22e9)
    made = replace(made, chosen=replace(made.chosen, time=slow))
    assert "net: 20.80 s (19.00 s to 22.00 s), " in render("text", made, View(width=100))


def test_energy_is_held_against_the_baseline():
    text = render("text", composition(), View(width=100))
    assert "energy:    5.350 mJ, cudnn takes 1.300× (1.200 to 1.400) as much\n" in text


def test_what_nobody_measured_has_no_column():
    made = composition()
    bare = [replace(one, energy=None) for one in (made.chosen, made.baseline)]
    parts = tuple(replace(part, energy_j=None) for part in made.chosen.parts)
    made = replace(
        made,
        chosen=replace(bare[0], parts=parts),
        baseline=bare[1],
        ratios=replace(made.ratios, energy=None),
    )
    assert "energy" in render("text", composition())
    heads = [line for line in lines(made, 80) if line.startswith("choice") or " part " in line]
    assert heads
    assert not [line for line in heads if "energy" in line]
