"""hipDNN's own tuner as an engine, and its own clock as a witness."""

from __future__ import annotations

import pytest

import bench_run


@pytest.fixture
def tuned(release, plugin, small_graph):
    """A run of hipDNN's tuner over two engines, of which the second is faster."""

    def run(profile="newest"):
        release(profile)
        plugin("build", name="liba.so", engines=("SLOW_ENGINE",), milliseconds=2.0)
        folder = plugin("build", name="libb.so", engines=("FAST_ENGINE",), milliseconds=1.0)
        spec = f"hipdnn:autotune@{folder}"
        document = bench_run.run([str(small_graph)], engine=[spec], rounds=1, iterations=5)
        return document.cases[0]

    return run


def test_the_tuners_winner_is_measured_with_its_claim_beside(tuned):
    case = tuned()
    assert ("completed", "passed") == (case.outcome.status, case.validation.status)
    assert ("FAST_ENGINE", "confirmed") == (case.plan["engine"], case.plan["attribution"])
    assert "FAST_ENGINE, least 1 ms, mean 1 ms" == case.plan["autotune's winner claims"]
    assert "SLOW_ENGINE, least 2 ms, mean 2 ms" == case.plan["autotune's others claim"]
    assert 1e6 == pytest.approx(case.summary["device_ns"].median, rel=0.02)


def test_hipdnns_own_clock_is_a_witness_with_its_quality(tuned):
    words = tuned().plan["execute_timed_ext says"]
    assert words.startswith("median 1.00")
    assert words.endswith(" ms of 5, DEVICE_ONLY")


def test_a_release_without_the_tuner_says_so(tuned):
    outcome = tuned("hard").outcome
    assert "unsupported" == outcome.status
    assert "0.8.0 has no Graph.autotune, which hipdnn:autotune needs" in outcome.reason
