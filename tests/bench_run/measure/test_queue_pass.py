"""The cost of two marks on a queue where it depends on what follows: whatever the block, a sample
is the time of its work."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from bench_run.engines.base import PlanAbilities
from bench_run.measure import marks
from bench_run.measure.budget import SamplingBudget
from bench_run.measure.kernel_pass import (
    SEVERAL,
    SINGLE,
    Recorded,
    asks_for_records,
    record_kernels,
    with_records,
)
from bench_run.measure.loop import Measured, on_device
from bench_run.streams.base import EmptyKernel, StreamAbilities
from bench_run.streams.cupti import KernelRecord

OWN_NS, GAP_NS = 400, 1200
"""Of the empty kernel, and from one kernel to the next: what one more adds to a queue is both."""


class Queue:
    """A stream whose two marks cost 2700 ns, and 3400 where more than 30 commands follow."""

    clock, gate_depth = "events", 64
    __module__ = "bench_run.streams.queue"  # one of ours

    def __init__(self, *, forced=False):
        self.queue, self.now, self.forced, self.gates = [], 0, forced, 0
        launch = lambda: self.queue.append(OWN_NS + GAP_NS)  # noqa: E731
        self.empty = EmptyKernel(launch, bound_ns=200.0)
        self.abilities = StreamAbilities(
            empty=lambda: self.empty,
            forced_gates=lambda: self.gates if self.forced else 0,
            no_gate_because=lambda: "it was forced" if self.forced and self.gates else None,
        )

    def mark(self):
        found = SimpleNamespace(at=None)
        self.queue.append(found)
        return found

    def synchronize(self):
        while self.queue:
            command = self.queue.pop(0)
            half = 1700 if len(self.queue) > 30 else 1350
            if isinstance(command, int):
                self.now += command
            else:
                self.now += half
                command.at, self.now = self.now, self.now + half

    def elapsed_ns(self, begin, end):
        return end.at - begin.at

    @contextmanager
    def gate(self):
        self.gates = 1
        yield

    def flush(self):
        return None


class Plan:
    def __init__(self, stream, kernels, captured=None):
        self.abilities = PlanAbilities(captured=lambda: captured)
        self.run = lambda: stream.queue.extend(kernel + GAP_NS for kernel in kernels)


@pytest.mark.parametrize("kernels", [[640], [5000], [400, 2000]])
@pytest.mark.parametrize("count", [1, 4, 8, 34, 60, 100])
def test_a_block_of_any_length_has_the_same_times(count, kernels):
    stream = Queue()
    samples = on_device(Plan(stream, kernels), stream, SamplingBudget(0, count), 0)
    inside_ns = sum(kernels) + GAP_NS * (len(kernels) - 1)
    assert [inside_ns + marks.OWN_SHARE * (OWN_NS + GAP_NS) - OWN_NS] * count == samples


def test_what_was_subtracted_is_told():
    stream, costs = Queue(), []
    on_device(Plan(stream, [640]), stream, SamplingBudget(0, 20), 0, costs=costs)
    assert [3400 + GAP_NS + OWN_NS - marks.OWN_SHARE * (OWN_NS + GAP_NS)] == costs


def test_several_executions_in_a_sample_share_one_cost():
    stream = Queue()
    budget = SamplingBudget(0, 5, executions=4)
    samples = on_device(Plan(stream, [2000]), stream, budget, 0)
    assert [(4 * 2000 + 3 * GAP_NS) // 4] * 5 == samples


def test_while_records_are_taken_no_empty_kernel_is_launched():
    stream = Queue()
    samples = on_device(Plan(stream, [640]), stream, SamplingBudget(0, 3), 0, corrects=False)
    assert [2700 + 640 + GAP_NS] * 3 == samples


def test_without_a_gate_nothing_is_subtracted():
    stream = Queue(forced=True)
    samples = on_device(Plan(stream, [640]), stream, SamplingBudget(0, 3), 0)
    assert [2700 + 640 + GAP_NS] * 3 == samples
    assert marks.events_bound_ns(stream) is None


def test_a_replayed_plan_is_held_against_an_empty_kernel_that_is_replayed_too():
    class Graph:
        """Its launch comes 700 ns later."""

        def __init__(self, work):
            self.work = work

        def again(self, work):
            return Graph(work)

        def launch(self):
            stream.queue.append(700)
            self.work()

    stream = Queue()
    graph = Graph(lambda: stream.queue.append(5000 + GAP_NS))
    plan = Plan(stream, [], captured=graph)
    plan.run = graph.launch
    samples = on_device(plan, stream, SamplingBudget(0, 4), 0)
    assert [5000] * 4 == samples


def test_the_bound_is_the_measured_one_or_what_is_unknown_of_the_empty_kernel():
    stream = Queue()
    marks.empty_kernel(Plan(stream, []), stream)
    assert 200.0 == marks.events_bound_ns(stream)
    stream.empty.bound_ns = None
    assert pytest.approx((1 - marks.OWN_SHARE) * (OWN_NS + GAP_NS)) == marks.events_bound_ns(stream)


@pytest.mark.parametrize(("measured_ns", "cost_ns"), [(100, 0), (3_300, 2_900), (2_000_400, 2e6)])
def test_marks_on_a_device_that_others_use_cost_what_they_cost_and_never_less_than_nothing(
    measured_ns, cost_ns
):
    empty = EmptyKernel(lambda: None, own_ns=400.0)
    assert cost_ns == marks.cost_of_marks(empty, [measured_ns] * 3)


def test_an_empty_kernel_of_an_engine_from_elsewhere_is_not_believed():
    class Foreign(Queue):
        """Its empty kernel takes as long as half of a sample."""

    Foreign.__module__ = "an_engine"
    stream = Foreign()
    samples = on_device(Plan(stream, [640]), stream, SamplingBudget(0, 3), 0)
    assert ([2700 + 640 + GAP_NS] * 3, None) == (samples, marks.events_bound_ns(stream))


@pytest.mark.parametrize("bound_ns", [200.0, None])
def test_times_by_events_state_how_far_they_may_be_off(bound_ns):
    stream = Queue()
    stream.empty.bound_ns = bound_ns
    plan = Plan(stream, [640])
    samples = on_device(plan, stream, SamplingBudget(0, 3), 0)
    measured = Measured({}, {"device_ns": samples}, "iterations")
    found = record_kernels(plan, stream, SamplingBudget(0, 3), measured)
    assert (bound_ns or 1200.0, False) == (found.bound_ns, found.replaces_events)


def groups(kernels, gap, count=3):
    """As CUPTI records them: with gaps of its own."""
    made = []
    for number in range(count):
        at, group = 32 * 1000 * number, []
        for index, duration in enumerate(kernels):
            group.append(KernelRecord(f"k{index}", at, at + duration))
            at += duration + gap
        made.append(group)
    return made


EVENTS = Recorded(
    Measured({}, {"device_ns": [9000] * 3, "e2e_ns": [1] * 3}, "iterations", {"device_ns": [1]}),
    bound_ns=200.0,
)


def test_one_kernel_takes_what_its_record_says():
    found = with_records(EVENTS, groups([1184], 0), [2])
    assert ([1184] * 3, [2]) == (
        found.measured.series["device_ns"],
        found.measured.placements["device_ns"],
    )
    assert (32.0, (SINGLE,), True) == (found.bound_ns, found.notes, found.replaces_events)
    assert ["k0 1 1184.0"] == [f"{k.name} {k.count} {k.median_ns}" for k in found.kernels]


def test_several_kernels_keep_their_events_since_records_stretch_the_gaps():
    found = with_records(EVENTS, groups([2000, 6400], 1600), [2])
    series, places = found.measured.series, found.measured.placements
    assert ([9000] * 3, [1]) == (series["device_ns"], places["device_ns"])
    assert ([10000] * 3, [8400] * 3) == (series["kernel_span_ns"], series["kernel_sum_ns"])
    assert (200.0, (SEVERAL,), False) == (found.bound_ns, found.notes, found.replaces_events)


@pytest.mark.parametrize(
    ("timer", "median_ns", "asked"),
    [
        ("cupti", 1_000_000, True),
        ("auto", 1_000_000, False),
        ("events", 1_000, False),
    ],
)
def test_only_records_that_will_be_taken_are_waited_for(timer, median_ns, asked):
    stream = SimpleNamespace(abilities=StreamAbilities(kernel_timer=timer))
    assert asked is asks_for_records(stream, [median_ns] * 3)
