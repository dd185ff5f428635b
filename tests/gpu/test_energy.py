"""Joules of an iteration, held against what the device may draw at most."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.alone]

WORDS = ("--iters", "40", "--rounds", "2", "--warmup", "2", "--energy")
IDLE_W = 20


def test_energy_is_between_idling_and_the_power_limit(run, spec, big_graph):
    document = run(big_graph, "--engine", spec, *WORDS)
    case, device = document["cases"][0], document["machine"]["devices"][0]
    if device["power_limit_w"] is None:
        pytest.skip("NVML (nvidia-ml-py) tells no power limit")
    summary = case["summary"]
    for found in case["rounds"]:
        assert found["energy_window_s"] >= 1
        energy_j = found["energy_j_per_iteration"]
        assert IDLE_W * summary["device_ns"]["median"] / 1e9 < energy_j
        assert energy_j < 1.2 * device["power_limit_w"] * summary["e2e_ns"]["median"] / 1e9


def test_two_rounds_agree_on_the_energy(run, spec, big_graph):
    rounds = run(big_graph, "--engine", spec, *WORDS)["cases"][0]["rounds"]
    first, second = (found["energy_j_per_iteration"] for found in rounds)
    assert first == pytest.approx(second, rel=0.1)


def test_counting_energy_leaves_the_samples_as_they_are(run, spec, big_graph):
    found = {}
    for words in ((), ("--energy",)):
        case = run(big_graph, "--engine", spec, "--iters", "60", *words)["cases"][0]
        found[words] = case["summary"]["device_ns"]["median"]
    plain, counted = found.values()
    assert counted == pytest.approx(plain, rel=0.01)
