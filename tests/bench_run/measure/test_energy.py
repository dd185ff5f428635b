"""Energy of an iteration: counted between steps of the counter, never inside samples."""

from __future__ import annotations

import pytest

import bench_run
from bench_run.machine.rapl import counter
from bench_run.measure.observers.energy import NO_COUNTER, WINDOW_S, Used, count_energy


class Device:
    """Draws so many watts while it works; counts them in steps, as devices do."""

    def __init__(self, watts, iteration_s, step_s=0.1, offset_s=0.037):
        self.watts, self.iteration_s = watts, iteration_s
        self.step_s, self.now_s, self.waits, self.queued = step_s, offset_s, 0, 0

    def run(self):
        self.queued += 1

    def synchronize(self):
        self.now_s += self.queued * self.iteration_s
        self.queued, self.waits = 0, self.waits + 1

    def counter(self):
        steps = int(self.now_s / self.step_s)
        return steps * self.step_s * self.watts * 1000

    def clock(self):
        return self.now_s


def used(device, counter=None):
    return count_energy(device, device, counter or device.counter, device.clock)


@pytest.mark.parametrize("iteration_s", [2e-6, 1e-4, 0.003])
def test_energy_is_power_times_the_time_of_an_iteration(iteration_s):
    found = used(Device(500, iteration_s))
    assert pytest.approx(500 * iteration_s, rel=0.02) == found.j_per_iteration
    assert () == found.notes


def test_the_window_is_at_least_a_second_and_on_record():
    assert WINDOW_S <= used(Device(500, 1e-3)).window_s < WINDOW_S + 0.2


@pytest.mark.parametrize("iteration_s", [0.08, 3.0])
def test_long_iterations_are_counted_as_exactly_as_they_divide_the_window(iteration_s):
    found = used(Device(200, iteration_s))
    assert pytest.approx(200 * iteration_s, rel=0.05) == found.j_per_iteration


def test_what_the_counter_cannot_resolve_is_said_with_how_well_it_is_known():
    (note,) = used(Device(200, 0.08)).notes
    assert note.startswith("--energy: not resolved by the counter: an iteration of 0.08 s")
    assert note.endswith("±8%")


def test_a_long_window_resolves_long_iterations():
    assert () == used(Device(200, 3.0)).notes


def test_a_counter_that_steps_with_every_reading_serves_as_well():
    found = used(Device(500, 1e-3, step_s=1e-6))
    assert pytest.approx(0.5, rel=0.02) == found.j_per_iteration


def test_readings_are_rare_beside_iterations():
    device = Device(500, 1e-4)
    used(device)
    assert device.waits < 200


@pytest.mark.parametrize("reading", [None, 1234.0])
def test_without_a_counter_that_moves_there_is_no_energy_and_a_note(reading):
    assert Used(None, None, (NO_COUNTER,)) == used(Device(500, 1e-3), lambda: reading)


@pytest.mark.skipif(counter().problem() is None, reason="this processor counts its energy")
def test_a_processor_without_a_counter_says_so_in_the_case(small_graph):
    document = bench_run.run(
        [str(small_graph)], engine=["numpy"], energy=True, rounds=1, iterations=2, warmup=0
    )
    case = document.cases[0]
    assert (None, None) == (
        case.rounds[0].energy_j_per_iteration,
        case.rounds[0].energy_window_s,
    )
    assert any(note.startswith("--energy: not measured: /sys/class") for note in case.notes)


def test_nobody_counts_energy_unasked(small_graph):
    document = bench_run.run([str(small_graph)], engine=["numpy"], rounds=1, iterations=2, warmup=0)
    assert not [note for note in document.cases[0].notes if "--energy" in note]
