"""The terminal's answer fits into its window, and says nothing twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench_compare.report.compose.text import render
from tests.bench_compare.compose.sample import composition

COMMAND = "    bench-run "
"""Lines that are copied as they stand."""


def lines(made, width):
    return [line for line in render(made, width).splitlines() if not line.startswith(COMMAND)]


@pytest.mark.parametrize("width", [80, 100])
def test_no_line_is_wider_than_the_window_however_long_names_are(width):
    made = composition()
    long = "conv_fwd+bias+relu_n32c256h56w56k64r1s1_half_nhwc"
    parts = tuple(replace(part, layer=long, note=long) for part in made.chosen.parts)
    made = replace(made, baseline_name=long, chosen=replace(made.chosen, parts=parts))
    assert max(map(len, lines(made, width))) <= width


def test_what_nobody_measured_has_no_column():
    made = composition()
    bare = [replace(one, energy=None) for one in (made.chosen, made.baseline)]
    parts = tuple(replace(part, energy_j=None) for part in made.chosen.parts)
    made = replace(made, chosen=replace(bare[0], parts=parts), baseline=bare[1], front=(),
                   ratios=replace(made.ratios, energy=None))  # fmt: skip
    assert "energy" in render(composition(), 80)
    heads = [line for line in lines(made, 80) if line.startswith("choice") or " part " in line]
    assert heads
    assert not [line for line in heads if "energy" in line]
