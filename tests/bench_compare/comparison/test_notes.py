"""What is noted beside a verdict."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from bench_schema.document import Telemetry

from bench_compare.comparison.circumstances.notes import two_modes
from bench_compare.comparison.compare import compare
from bench_compare.policy import Policy
from tests.bench_compare.build import case, document, round_, side, steady, validation

LEVEL_NS = 1e6


def notes(other):
    base = case("g", steady(np.random.default_rng(0), LEVEL_NS, count=60))
    found = compare(side("a", document([base])), [side("b", document([other]))], Policy())
    return found.cases[0], {note.kind: note for note in found.cases[0].notes}


def noisy(seed=1):
    return steady(np.random.default_rng(seed), LEVEL_NS, count=60).astype(float)


def test_quiet_samples_need_no_note():
    assert notes(case("g", noisy()))[1] == {}


def test_two_modes_are_noted_and_said_with_the_verdict():
    samples = noisy()
    samples[:, ::3] *= 1.1
    _, kinds = notes(case("g", samples))
    assert "two modes 9.8 %" in kinds["bimodal"].text
    assert kinds["bimodal"].side == "other"


def test_drift_inside_the_rounds_is_noted():
    _, kinds = notes(case("g", noisy() * np.linspace(1, 1.08, 60)))
    assert "inside a round" in kinds["drift"].text


def test_drift_from_round_to_round_is_noted():
    _, kinds = notes(case("g", noisy() * np.linspace(1, 1.08, 5)[:, None]))
    assert "from the first round to the last" in kinds["drift"].text


def test_spikes_are_noted():
    samples = noisy()
    samples[:, ::20] *= 3
    assert "15 of 300 samples" in notes(case("g", samples))[1]["outliers"].text


def test_rounds_that_never_got_warm_are_noted():
    samples = noisy() * np.exp(-np.arange(60) / 60)
    rounds = [round_(n, {"e2e_ns": one}, cut=None) for n, one in enumerate(samples)]
    assert "5 of 5 rounds never got warm" in notes(case("g", rounds))[1]["not warm"].text


@pytest.mark.long
@pytest.mark.parametrize("samples", [10, 20, 100])
@pytest.mark.parametrize("spread", [0.01, 0.05, 0.15])
def test_mere_noise_neither_drifts_nor_stays_cold(samples, spread):
    random = np.random.default_rng(3)

    def quiet(name):
        noise = np.abs(random.normal(0, spread, (200, 5, samples)))
        times = np.rint(LEVEL_NS * np.exp(noise + random.normal(0, 0.004, (200, 5, 1))))
        rows = [[round_(n, {"e2e_ns": one}, cut=None) for n, one in enumerate(c)] for c in times]
        return side(name, document([case(f"g{n}", row) for n, row in enumerate(rows)]))

    found = compare(quiet("a"), [quiet("b")], Policy())
    kinds = [note.kind for one in found.cases for note in one.notes]
    assert kinds.count("drift") + kinds.count("not warm") <= 16  # of 400 sides


def test_a_driver_that_speaks_of_the_case_before_is_not_believed():
    """The clock that a kernel counted was the same before and after."""
    told = Telemetry(throttle=("sw power cap",), probed_clock_mhz=1980.0)
    one = round_(0, {"e2e_ns": noisy()[0]})
    rounds = [replace(one, index=n, telemetry_before=told, telemetry_after=told) for n in range(5)]
    assert "throttled" not in notes(case("g", rounds))[1]
    moved = [replace(one, notes=("the SM clock changed during the measurement",)) for one in rounds]
    assert "sw power cap" in notes(case("g", moved))[1]["throttled"].text


def test_throttling_and_changing_results_are_noted():
    hot = Telemetry(throttle=("thermal",))
    one = round_(0, {"e2e_ns": noisy()[0]})
    rounds = [replace(one, index=n, telemetry_after=hot) for n in range(5)]
    checked = replace(validation(), deterministic=False)
    _, kinds = notes(case("g", rounds, validation=checked))
    assert kinds["throttled"].text == "the device throttled: thermal"
    assert "nondeterministic" in kinds


@pytest.mark.parametrize("shape", ["normal", "exponential", "uniform"])
def test_one_mode_is_one_mode(shape):
    random = np.random.default_rng(3)
    draws = {
        "normal": random.normal(0, 0.05, (500, 128)),
        "exponential": random.exponential(0.05, (500, 128)),
        "uniform": random.uniform(0, 0.2, (500, 128)),
    }
    found = [two_modes(row) for row in np.sort(draws[shape], axis=1)]
    assert sum(one is not None for one in found) < 5


def test_two_clock_states_are_found_with_their_shares():
    random = np.random.default_rng(4)
    logs = random.normal(0, 0.004, (200, 128))
    logs[:, :32] += 0.03
    found = [one for row in np.sort(logs, axis=1) if (one := two_modes(row)) is not None]
    assert len(found) > 190
    apart, share = np.median(found, axis=0)
    assert apart == pytest.approx(0.03, rel=0.1)
    assert share == pytest.approx(0.25, rel=0.1)
