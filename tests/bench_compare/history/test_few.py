"""A history of few documents never passes over a step, and says why it has no answer."""

from __future__ import annotations

import numpy as np
import pytest

from bench_compare.cli import main
from tests.bench_compare.history import make
from tests.benchmarks.history_few import SPREADS, STEPS, ramp, said, stepped


@pytest.mark.long
@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("sides", [2, 3, 4, 6, 8])
def test_a_step_is_found_or_undecided_and_never_passed(sides, spread):
    random = np.random.default_rng(sides)
    steps = STEPS * 6
    drawn = (stepped(random, sides, sides, factor, spread) for factor in steps)
    assert "passed" not in {said(logs) for logs in drawn}


@pytest.mark.parametrize("spread", SPREADS)
def test_nor_is_one_at_any_place(spread):
    random = np.random.default_rng(7)
    for builds in (8, 12, 16):
        for before in range(2, builds - 1):
            assert said(stepped(random, before, builds - before, 1.3, spread)) != "passed"


@pytest.mark.long
@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("rise", [0.01, 0.02])
def test_nor_is_a_ramp_over_24_builds(rise, spread):
    random = np.random.default_rng(5)
    assert "passed" not in {said(ramp(random, rise, spread)) for _ in range(12)}


@pytest.mark.long
def test_none_of_30_archives_of_identical_builds_fails():
    random = np.random.default_rng(11)
    told = [said(random.normal(0, SPREADS[n % 5], (6, 24))) for n in range(30)]
    assert "found" not in told
    assert told.count("passed") >= 12  # those of 1 % and 2 %


def test_a_steady_archive_of_four_documents_passes():
    assert said(np.random.default_rng(3).normal(0, 0.002, 4)) == "passed"


def test_eight_documents_with_a_step_of_2_6_do_not_pass(tmp_path, capsys):
    random = np.random.default_rng(2)
    levels = [*random.uniform(120e3, 160e3, 4), *random.uniform(306e3, 377e3, 4)]
    make.write(tmp_path, [make.one(n, [t], random=random) for n, t in enumerate(levels)])
    assert main(["history", str(tmp_path)]) in (1, 2)
    out = " ".join(capsys.readouterr().out.split())
    assert "PASS" not in out
    assert "UNDECIDED: 1 of 1 case may hide a step of up to ×" in out
    assert "1 unclear" in out


def test_a_noisy_case_that_is_gone_leaves_an_answer_of_the_others(tmp_path, capsys):
    random = np.random.default_rng(4)
    noisy = 1e5 * np.exp(random.normal(0, 0.3, 6))
    levels = [[1e6, noisy[n] if n < 6 else None] for n in range(16)]
    make.write(tmp_path, [make.one(n, t, random=random) for n, t in enumerate(levels)])
    main(["history", str(tmp_path)])
    assert "may hide" not in capsys.readouterr().out
